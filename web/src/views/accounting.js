// Where the time of a step goes, by who works: libraries, the framework, Python, input, waiting.
import {bars, legend} from "../bars.js";
import {processName, rankOf, table} from "../data.js";
import {add, h} from "../dom.js";
import {time} from "../format.js";
import {barOf, isCommunication, part, sum} from "./parts.js";

// Color and name by activity.
const ACTIVITIES = {
  library: ["library", "library calls"],
  framework: ["framework", "the framework itself"],
  "not seen": ["python", "Python, or native code without hooks"],
  sampled: ["python", "Python, or native code without hooks, by samples"],
  "data loading": ["input", "waiting for input"],
  waiting: ["waiting", "waiting for the GPU"],
  communication: ["communication", "communication"],
};
const OTHER = ["other", "nothing that dlhook sees"];
const MOST_GROUPS = 16;

export const accountingView = {
  id: "accounting",
  title: "Time",
  lead: "Where the time of a mean step goes, by who works. All rows of a process add up to its step.",
  tables: ["accounting"],
  none: "There is no time to divide.",
  notesOf: "accounting",
  render(section) {
    const all = table("accounting");
    const key = (row) => `${row.process} ${row.step || ""}`;
    const groups = [...new Set([...all.objects].sort((a, b) => rankOf(a.process) - rankOf(b.process)).map(key))];
    const processes = new Set(all.objects.map((row) => row.process)).size;
    const kind = (row) => (isCommunication(row.what) ? "communication" : row.activity);
    const [color, nameOf] = [0, 1].map((i) => (activity) => (ACTIVITIES[activity] || OTHER)[i]);
    const used = [...new Set(all.objects.map(kind))];
    add(section, legend(used.map((activity) => [nameOf(activity), color(activity)])));
    for (const group of groups.slice(0, MOST_GROUPS)) {
      const rows = all.objects.filter((row) => key(row) === group).sort((a, b) => b.time - a.time);
      const timeOf = (those) => sum(those.map((row) => row.time)),
        whole = timeOf(rows);
      const byActivity = used.map((activity) => ({
        value: timeOf(rows.filter((row) => kind(row) === activity)),
        color: color(activity),
      }));
      add(
        section,
        part(
          `A mean ${rows[0].step || ""} step${processes > 1 ? ` of ${processName(rows[0].process)}` : ""}`,
          bars([{name: "all of it", parts: byActivity, numbers: [time(whole), "100.0 %"]}]),
          bars(
            rows.slice(0, 40).map((row) =>
              barOf(all, row, {
                name: row.what || row.activity,
                column: "time",
                color: color(kind(row)),
                numbers: ["time", "percent"],
                note: row.what ? row.activity : "",
                quiet: !ACTIVITIES[row.activity],
                pairs: {
                  "in a mean step": "time",
                  "of it": "percent",
                  forward: "forward",
                  backward: "backward",
                  update: "update",
                  input: "input",
                  other: "other",
                },
              }),
            ),
            {most: whole},
          ),
        ),
      );
    }
    if (groups.length > MOST_GROUPS)
      add(section, h("p.quiet", `${MOST_GROUPS} of ${groups.length} processes; the table has all.`));
  },
};
