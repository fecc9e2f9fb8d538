// What threads and GPU streams did in one step.
import {get, set} from "../address.js";
import {legend} from "../bars.js";
import {page} from "../data.js";
import {add, h, replace, searchBox, segments, selectBox} from "../dom.js";
import {groups, time} from "../format.js";
import {icicle} from "../icicle.js";
import {Timeline} from "../timeline.js";
import {card, partOf} from "../tip.js";

const FLAMES = ["framework", "library", "range", "waiting", "kernel", "copy", "communication", "input"];

export const timelineView = {
  id: "timeline",
  title: "Timeline",
  lead: "What each thread and each GPU stream did in one step, call by call.",
  missing: () =>
    page().timelines?.windows.some((window) => window.tracks.length > 0)
      ? ""
      : "The steps of this run contain no call and no framework op.",
  render(section, rest) {
    const {timelines} = page(),
      windows = timelines.windows,
      note = h("p.quiet"),
      box = h("div.timeline-box"),
      flames = h("div"),
      count = h("span.count");
    let window = windows.find((one) => one.id === rest) || windows[0];
    const controls = h("div.controls");
    add(section, [controls, note, box, flames]);
    const timeline = new Timeline(box, timelines);
    const flame = (root) =>
      icicle(root, {
        label: "Flame graph of one step",
        content: (node, value, all) =>
          card(
            node.name,
            [...partOf(value, all, "of all in this track"), ["times", node.times && groups(node.times)]],
            "With everything inside it; what has one name and one place is one box.",
          ),
      }).element;
    const as = () => {
      const isFlame = get("as") === "flame";
      box.hidden = isFlame;
      replace(
        flames,
        isFlame && [
          legend(FLAMES.map((kind) => [kind, kind])),
          timeline.trees().map((root) => [h("h2", root.name), flame(root)]),
        ],
      );
    };
    const find = (query, isJump) => {
      timeline.query = query;
      const found = query ? timeline.found() : [];
      replace(count, query && `${groups(found.length)} found`, query && found.length > 0 && "; Enter: the next");
      if (isJump && found.length > 0) timeline.next(1);
      timeline.draw();
    };
    const choose = (id) => {
      window = windows.find((one) => one.id === id) || windows[0];
      const left = [
        window.left_out > 0 &&
          `${groups(window.left_out)} calls shorter than ${time(window.shorter_than)} are left out.`,
        window.tracks_left_out > 0 && `${groups(window.tracks_left_out)} less busy threads are left out.`,
      ].filter(Boolean);
      replace(
        note,
        `${window.title}: ${time(window.length)}${window.start > 0 ? `, ${time(window.start)} after the run began` : ""}. `,
        left.join(" "),
      );
      timeline.onselect = null;
      timeline.setWindow(window);
      const slice = timeline.named(get("slice") || "");
      if (slice) timeline.zoomTo(slice);
      timeline.onselect = (name) => set("slice", name);
      as();
      find((get("find") || "").toLowerCase(), !slice);
    };
    const go = (id) => {
      set("slice", null, "timeline/" + id);
      choose(id);
    };
    const isNumbered = (one) => one.id.startsWith("step-"),
      few = windows.filter((one) => !isNumbered(one));
    add(controls, [
      windows.length > 1 && segments("Step", Object.fromEntries(few.map((one) => [one.id, one.title])), window.id, go),
      windows.some(isNumbered) &&
        selectBox(
          "Any step",
          [
            [window.id, "Another step"],
            ...windows
              .filter(isNumbered)
              .sort((a, b) => a.start - b.start)
              .map((one) => [one.id, `${one.title} (${time(one.length)})`]),
          ],
          window.id,
          go,
        ),
      segments("Colours", {kind: "By kind", direction: "By direction"}, "kind", (by) => {
        timeline.by = by;
        timeline.legend();
        timeline.draw();
      }),
      segments("Show as", {time: "Timeline", flame: "Flame graph"}, get("as") || "time", (value) => {
        set("as", value);
        as();
      }),
      h("span.spacer"),
      count,
      h(
        "span",
        {onkeydown: (event) => event.key === "Enter" && timeline.next(event.shiftKey ? -1 : 1)},
        searchBox(
          "Find: op, layer, kernel",
          (query) => {
            set("find", query);
            find(query, true);
          },
          get("find") || "",
        ),
      ),
    ]);
    choose(window.id);
  },
};
