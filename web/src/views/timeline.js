// What threads and GPU streams did in one step.
import {segments} from "../bars.js";
import {page} from "../data.js";
import {add, h, replace, searchBox} from "../dom.js";
import {groups, time} from "../format.js";
import {Timeline} from "../timeline.js";

let timeline = null;
let choose = null;

export const timelineView = {
  id: "timeline",
  title: "Timeline",
  keepsAddress: true,
  lead: "What each thread and each GPU stream did in one step, call by call.",
  missing: () =>
    page().timelines && page().timelines.windows.some((window) => window.tracks.length > 0)
      ? ""
      : "The steps of this run contain no call and no framework op.",
  render(section) {
    const {timelines} = page(),
      windows = timelines.windows,
      note = h("p.quiet"),
      box = h("div.timeline-box");
    const controls = h("div.controls");
    add(section, [controls, note, box]);
    timeline = new Timeline(box, timelines);
    choose = (id) => {
      const window = windows.find((one) => one.id === id) || windows[0];
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
      timeline.setWindow(window);
    };
    add(controls, [
      windows.length > 1 &&
        segments(
          "Step",
          windows.map((window) => [window.id, window.title]),
          windows[0].id,
          (id) => {
            history.replaceState(null, "", "#timeline/" + id);
            choose(id);
          },
        ),
      segments(
        "Colours",
        [
          ["kind", "By kind"],
          ["direction", "By direction"],
        ],
        "kind",
        (by) => {
          timeline.by = by;
          timeline.legend();
          timeline.draw();
        },
      ),
      h("span.spacer"),
      searchBox("Find: op, layer, kernel", (query) => {
        timeline.query = query;
        timeline.draw();
      }),
    ]);
  },
  onshow(rest) {
    if (choose) choose(rest);
  },
};
