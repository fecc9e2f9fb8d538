// Which algorithm each problem runs with, and what else was tried or offered for it.
import {scaleLinear} from "d3-scale";
import {bars, legend} from "../bars.js";
import {dot, responsive} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h} from "../dom.js";
import {groups, human, percent, time} from "../format.js";
import {card} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

const COLORS = ["library", "input", "update", "recompute", "framework", "backward", "preparing", "other"];

function chosen() {
  const algorithms = table("algorithms");
  const rows = algorithms.rows
    .map((row) => {
      const get = (name) => algorithms.get(row, name);
      return {
        name: get("problem"),
        kind: get("kind"),
        direction: get("direction"),
        chosen: get("chosen") || "not told",
        chooser: get("chooser"),
        calls: get("calls"),
        time: get("gpu_time") || get("total_time") || 0,
        rate: get("gpu_rate") ?? get("rate"),
        formats: get("formats"),
        heuristic: get("heuristic"),
        workspace: get("workspace"),
        tensorCore: get("tensor_core"),
        types: get("types"),
      };
    })
    .sort((a, b) => b.time - a.time);
  const weights = new Map();
  for (const row of rows) {
    row.family = row.chosen.replace(/^(engine \d+) .*/, "$1"); // without its knobs
    weights.set(row.family, (weights.get(row.family) || 0) + row.time);
  }
  const order = [...weights].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const color = (name) => COLORS[Math.min(order.indexOf(name), COLORS.length - 1)];
  const shown = order.slice(0, COLORS.length - 1).map((name) => ({name, color: color(name)}));
  if (order.length >= COLORS.length) shown.push({name: "others", color: "other"});
  return part(
    "What runs",
    legend(shown),
    bars(
      rows.map((row) => ({
        name: `${row.kind} ${row.direction === "unknown" ? "" : row.direction} ${row.name}`,
        note: row.kind === "reorder" ? row.formats : "",
        parts: [{value: row.time, color: color(row.family)}],
        numbers: [time(row.time), `${groups(row.calls)} calls`],
        data: {value: row.time},
        tip: () =>
          card(
            row.chosen,
            [
              ["problem", row.name],
              ["type", row.types],
              ["time", time(row.time)],
              ["calls", groups(row.calls)],
              ["rate", row.rate === null || row.rate === undefined ? null : `${human(row.rate)} GFLOP/s`],
              ["formats", row.formats],
              ["chosen by", row.chooser],
              ["heuristic", row.heuristic],
              ["workspace", row.workspace === null ? null : human(row.workspace, "bytes")],
              ["tensor cores", row.tensorCore],
            ],
            algorithms.explanation("chosen"),
          ),
      })),
    ),
  );
}

// A line per problem, a dot per candidate with a known time.
function candidates() {
  const all = table("candidates"),
    get = (row, name) => all.get(row, name),
    problems = new Map();
  for (const row of all.rows) {
    if (!(get(row, "time") > 0)) continue;
    const name = `${get(row, "kind")} ${get(row, "direction") || ""} ${get(row, "problem")}`;
    if (!problems.has(name)) problems.set(name, []);
    problems.get(name).push({
      candidate: get(row, "candidate"),
      time: get(row, "time"),
      taken: get(row, "taken"),
      workspace: get(row, "workspace"),
      source: get(row, "source"),
      timedBy: get(row, "timed_by"),
    });
  }
  const rows = [...problems].slice(0, 40);
  if (rows.length === 0) return null;
  return part(
    "Candidates with their times",
    legend([
      {name: "taken", color: "update"},
      {name: "tried or offered", color: "other"},
    ]),
    h(
      "div.candidates",
      rows.map(([name, of]) => {
        const most = Math.max(...of.map((one) => one.time));
        return [
          h("div.candidate-name", name),
          responsive((width) => {
            const x = scaleLinear([0, most], [8, width - 70]),
              svg = h("svg.chart", {viewBox: `0 0 ${width} 30`, width, height: 30, role: "group", "aria-label": name});
            svg.append(
              h("line.axis", {x1: 8, x2: width - 70, y1: 15, y2: 15}),
              h("text", {x: width, y: 19, "text-anchor": "end"}, time(most)),
            );
            for (const one of [...of].sort((a, b) => (a.taken > 0) - (b.taken > 0))) {
              const label = `${one.candidate}: ${time(one.time)}${one.taken > 0 ? ", taken" : ""}`,
                [color, r] = one.taken > 0 ? ["update", 8] : ["other", 6];
              svg.append(
                dot(color, x(one.time), 15, r, {label}, () =>
                  card(
                    one.candidate,
                    [
                      ["time", time(one.time)],
                      ["taken", one.taken > 0 ? `${one.taken} times` : "no"],
                      ["workspace", one.workspace === null ? null : human(one.workspace, "bytes")],
                      ["source", one.source],
                      ["timed by", one.timedBy],
                    ],
                    all.explanation("time"),
                  ),
                ),
              );
            }
            return svg;
          }),
        ];
      }),
    ),
  );
}

function finding() {
  const tuning = table("tuning"),
    get = (row, name) => tuning.get(row, name);
  return part(
    "Cost of searching and preparing them",
    bars(
      tuning.rows
        .map((row) => ({
          name: `${get(row, "activity")}: ${get(row, "kind")} ${get(row, "problem") || ""}`,
          parts: [{value: get(row, "total_time") || 0, color: "preparing"}],
          numbers: [time(get(row, "total_time")), percent(get(row, "run_percent"))],
          data: {value: get(row, "total_time")},
          tip: () =>
            card(
              get(row, "activity"),
              [
                ["problem", get(row, "problem")],
                ["time", time(get(row, "total_time"))],
                ["of the run", percent(get(row, "run_percent"))],
                ["times", get(row, "count")],
                ["by", get(row, "functions")],
              ],
              tuning.explanation("total_time"),
            ),
        }))
        .slice(0, 15),
    ),
  );
}

export const algorithmsView = {
  id: "algorithms",
  title: "Algorithms",
  lead: "The implementations and algorithms that libraries chose, what they cost, and what they were chosen from.",
  missing: () =>
    missingTables(["algorithms", "candidates", "tuning", "convolutions"], "No library reported which algorithm it used."),
  render(section) {
    add(section, [
      hasRows("algorithms") && chosen(),
      hasRows("candidates") && candidates(),
      hasRows("tuning") && finding(),
      part("Tables", tablesOf(["algorithms", "candidates", "tuning", "convolutions"])),
    ]);
  },
};
