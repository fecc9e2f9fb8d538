// What ran where, what was seen of it and what could not be, and what is not on this page for want of data.
import {page, run} from "../data.js";
import {add, facts, h, notes} from "../dom.js";
import {groups, time} from "../format.js";
import {part, tablesOf} from "./parts.js";

function process(one) {
  const ranks = Object.entries(one.rank_variables || {})
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
  return h(
    "div.card",
    h("strong", one.script || one.program),
    facts([
      ["process", one.pid],
      ["program", one.program],
      ["host", one.host],
      ["ran", time(one.end_ns - one.start_ns)],
      ["ended", one.end],
      ["rank", ranks],
      ["recorded", one.capture_families.split(",").join(", ")],
      ["by dlhook", one.tool_version],
      ["trace", one.file],
    ]),
  );
}

export function environmentView(views) {
  return {
    id: "environment",
    title: "Environment",
    lead: "What ran where, what was observed of it, and what could not be.",
    missing: () => "",
    render(section) {
      const all = run(),
        notSeen = page().answer ? page().answer.not_seen : [];
      const absent = views().filter((view) => !view.isHidden && view.missing());
      add(section, [
        notSeen.length > 0 &&
          part("What could not be seen", notes(notSeen)),
        part(
          all.processes.length === 1 ? "Process" : `${groups(all.processes.length)} processes`,
          h("div.cards.wide", all.processes.slice(0, 60).map(process)),
          all.processes.length > 60 && h("p.quiet", "The first 60 are shown."),
        ),
        tablesOf(["summary", "capabilities"]),
        all.losses.length > 0 &&
          part(
            "Lost",
            notes(
              all.losses.map(
                (loss) =>
                  `${loss.file}: ${loss.reason}, ${groups(loss.calls)} calls, ${groups(loss.bytes)} bytes${loss.detail ? ", " + loss.detail : ""}`,
              ),
            ),
          ),
        all.oddities.length > 0 &&
          part(
            "Data warnings",
            notes(
              all.oddities.map(
                (oddity) => `${oddity.sentence}${oddity.count > 1 ? ` (${groups(oddity.count)} times)` : ""}`,
              ),
            ),
          ),
        absent.length > 0 &&
          part(
            "Not in this run",
            notes(absent.map((view) => [h("strong", view.title), ": ", view.missing()])),
          ),
        part(
          "This page",
          h("p.quiet", `Written by dlhook ${page().version}. It needs no network, and sends nothing.`),
          h(
            "details",
            h("summary", "Licences of the libraries inside"),
            h(
              "pre.licences",
              document
                .getElementById("licences")
                .textContent.split("\n")
                .map((line) => [line, h("br")]),
            ),
          ),
        ),
      ]);
    },
  };
}
