// How evenly ranks are loaded, and who waits for whom.
import {bars, legend} from "../bars.js";
import {hasRows, table} from "../data.js";
import {add} from "../dom.js";
import {groups, percent, time} from "../format.js";
import {card} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

function ranks() {
  const all = table("ranks"),
    get = (row, name) => all.get(row, name);
  const known = (row, name) => (get(row, name) === null ? null : time(get(row, name)));
  return part(
    "A mean step of each rank",
    legend([
      {name: "waiting for other ranks", color: "waiting"},
      {name: "the rest of the step", color: "library"},
    ]),
    bars(
      all.rows.map((row) => {
        const waiting = Math.min(get(row, "waiting") || 0, get(row, "step_time") || 0);
        return {
          name: `rank ${get(row, "rank") ?? "?"}`,
          note: get(row, "host") || "",
          parts: [
            {value: (get(row, "step_time") || 0) - waiting, color: "library"},
            {value: waiting, color: "waiting"},
          ],
          numbers: [time(get(row, "step_time")), `last ${groups(get(row, "came_last") ?? 0)} times`],
          data: {value: get(row, "step_time")},
          tip: () =>
            card(
              `rank ${get(row, "rank") ?? "?"}`,
              [
                ["step", known(row, "step_time")],
                ["waiting", known(row, "waiting")],
                ["of the step", get(row, "waiting_percent") === null ? null : percent(get(row, "waiting_percent"))],
                ["came last", groups(get(row, "came_last") ?? 0)],
                ["lateness", known(row, "lateness")],
                ["computing on GPUs", known(row, "compute")],
                ["communication alone", known(row, "exposed_communication")],
              ],
              all.explanation("waiting"),
            ),
        };
      }),
    ),
  );
}

export const ranksView = {
  id: "ranks",
  title: "Ranks",
  lead: "Load balance of ranks, and which rank the others wait for.",
  missing: () => missingTables(["ranks", "collectives"], "No communication between ranks was recorded."),
  render(section) {
    add(section, [hasRows("ranks") && ranks(), part("Tables", tablesOf(["ranks", "collectives"]))]);
  },
};
