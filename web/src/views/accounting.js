// Where the time of a step goes, by who works: libraries, the framework, Python, input, waiting.
import {isNamed} from "../address.js";
import {bars, legend} from "../bars.js";
import {rankOf, table} from "../data.js";
import {add, h, notes} from "../dom.js";
import {percent, time} from "../format.js";
import {card} from "../tip.js";
import {isCommunication, missingTables, part, sum, tablesOf} from "./parts.js";

const COLORS = {
  library: "library",
  framework: "framework",
  "not seen": "python",
  sampled: "python",
  "data loading": "input",
  waiting: "waiting",
  communication: "communication",
};
const NAMES = {
  library: "library calls",
  framework: "the framework itself",
  "not seen": "Python, or native code without hooks",
  sampled: "Python, or native code without hooks, by samples",
  "data loading": "waiting for input",
  waiting: "waiting for the GPU",
};

export const accountingView = {
  id: "accounting",
  title: "Time",
  lead: "Where the time of a mean step goes, by who works. All rows of a process add up to its step.",
  missing: () => missingTables(["accounting"], "There is no time to divide."),
  render(section) {
    const all = table("accounting"),
      get = (row, name) => all.get(row, name);
    const key = (row) => `${get(row, "process")} ${get(row, "step") || ""}`;
    const rank = (row) => rankOf(get(row, "process"));
    const groups = [...new Set([...all.rows].sort((a, b) => rank(a) - rank(b)).map(key))];
    const processes = new Set(all.rows.map((row) => get(row, "process"))).size;
    const kind = (row) => (isCommunication(get(row, "what")) ? "communication" : get(row, "activity"));
    const color = (row) => COLORS[kind(row)] || "other";
    const used = [...new Set(all.rows.map(kind))];
    add(
      section,
      legend(
        used.map((activity) => ({
          name: NAMES[activity] || (COLORS[activity] ? activity : "nothing that dlhook sees"),
          color: COLORS[activity] || "other",
        })),
      ),
    );
    for (const group of groups.slice(0, 16)) {
      const rows = all.rows.filter((row) => key(row) === group).sort((a, b) => get(b, "time") - get(a, "time"));
      const timeOf = (those) => sum(those.map((row) => get(row, "time"))),
        whole = timeOf(rows);
      const byActivity = used.map((activity) => ({
        value: timeOf(rows.filter((row) => kind(row) === activity)),
        color: COLORS[activity] || "other",
      }));
      add(
        section,
        part(
          `A mean ${get(rows[0], "step") || ""} step${processes > 1 ? ` of ${rank(rows[0]) === null ? "" : `rank ${rank(rows[0])}, `}process ${get(rows[0], "process")}` : ""}`,
          [
            bars([{name: "all of it", parts: byActivity, numbers: [time(whole), "100.0 %"]}]),
            bars(
              rows.slice(0, 40).map((row) => ({
                name: get(row, "what") || get(row, "activity"),
                note: get(row, "what") ? get(row, "activity") : "",
                quiet: !COLORS[get(row, "activity")],
                parts: [{value: get(row, "time"), color: color(row)}],
                numbers: [time(get(row, "time")), percent(get(row, "percent"))],
                data: {value: get(row, "time")},
                isTarget: isNamed("row", all, row),
                tip: () =>
                  card(
                    get(row, "what") || get(row, "activity"),
                    [
                      ["in a mean step", time(get(row, "time"))],
                      ["of it", percent(get(row, "percent"))],
                      ...["forward", "backward", "update", "input", "other"].map((phase) => [
                        phase,
                        get(row, phase) === null ? null : time(get(row, phase)),
                      ]),
                    ],
                    all.explanation("time"),
                  ),
              })),
              {most: whole},
            ),
          ],
        ),
      );
    }
    add(section, [
      groups.length > 16 && h("p.quiet", `16 of ${groups.length} processes; the table has all.`),
      notes(all.notes),
      part("Table", tablesOf(["accounting"], {accounting: {notes: false}})),
    ]);
  },
};
