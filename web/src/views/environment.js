// What ran where, what was seen of it and what could not be, and what is not on this page for want of data.
import {page, run} from "../data.js";
import {add, h, notes} from "../dom.js";
import {groups} from "../format.js";
import {part, processCards, tablesOf, whyMissing} from "./parts.js";

const listed = (title, sentences) => sentences.length > 0 && part(title, notes(sentences));

export const environmentView = {
  id: "environment",
  title: "Environment",
  lead: "What ran where, what was observed of it, and what could not be.",
  tables: ["summary", "capabilities"],
  isWhole: true,
  render(section, rest, views) {
    const {processes, losses, oddities} = run();
    const absent = views.filter((view) => !view.isHidden && whyMissing(view));
    add(section, [
      listed("What could not be seen", page().answer.not_seen),
      part(
        processes.length === 1 ? "Process" : `${groups(processes.length)} processes`,
        h("div.cards.wide", processCards(run())),
      ),
      tablesOf(["summary", "capabilities"]),
      listed(
        "Lost",
        losses.map(
          (loss) =>
            `${loss.file}: ${loss.reason}, ${groups(loss.calls)} calls, ${groups(loss.bytes)} bytes${loss.detail ? ", " + loss.detail : ""}`,
        ),
      ),
      listed(
        "Data warnings",
        oddities.map(({sentence, count}) => sentence + (count > 1 ? ` (${groups(count)} times)` : "")),
      ),
      listed(
        "Not in this run",
        absent.map((view) => [h("strong", view.title), ": ", whyMissing(view)]),
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
