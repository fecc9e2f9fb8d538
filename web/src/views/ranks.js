// How evenly ranks are loaded, and who waits for whom.
import {bars, legend} from "../bars.js";
import {hasRows, table} from "../data.js";
import {add} from "../dom.js";
import {groups, time} from "../format.js";
import {barOf, part} from "./parts.js";

function ranks() {
  const all = table("ranks");
  return part(
    "A mean step of each rank",
    legend({"waiting for other ranks": "waiting", "the rest of the step": "library"}),
    bars(
      all.objects.map((one) => {
        const waiting = Math.min(one.waiting || 0, one.step_time || 0);
        return barOf(all, one, {
          name: `rank ${one.rank ?? "?"}`,
          column: "step_time",
          numbers: [time(one.step_time), `last ${groups(one.came_last ?? 0)} times`],
          note: one.host || "",
          parts: [
            {value: (one.step_time || 0) - waiting, color: "library"},
            {value: waiting, color: "waiting"},
          ],
          pairs: {
            step: "step_time",
            waiting: "waiting",
            "of the step": "waiting_percent",
            "came last": "came_last",
            lateness: "lateness",
            "computing on GPUs": "compute",
            "communication alone": "exposed_communication",
          },
          explained: "waiting",
        });
      }),
    ),
  );
}

export const ranksView = {
  id: "ranks",
  title: "Ranks",
  lead: "Load balance of ranks, and which rank the others wait for.",
  tables: ["ranks", "collectives"],
  none: "No communication between ranks was recorded.",
  render: (section) => add(section, hasRows("ranks") && ranks()),
};
