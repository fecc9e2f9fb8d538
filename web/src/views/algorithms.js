// Which algorithm each problem runs with, and what else was tried or offered for it.
import {scaleLinear} from "d3-scale";
import {bars, legend} from "../bars.js";
import {dot, responsive} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h} from "../dom.js";
import {groups, time} from "../format.js";
import {rowCard} from "../tip.js";
import {barOf, part} from "./parts.js";

const COLORS = ["library", "input", "update", "recompute", "framework", "backward", "preparing", "other"];

function chosen() {
  const algorithms = table("algorithms");
  const timeOf = (row) => row.gpu_time || row.total_time || 0,
    familyOf = (row) => (row.chosen || "not told").replace(/^(engine \d+) .*/, "$1"); // without its knobs
  const rows = [...algorithms.objects].sort((a, b) => timeOf(b) - timeOf(a));
  const weights = new Map();
  for (const row of rows) weights.set(familyOf(row), (weights.get(familyOf(row)) || 0) + timeOf(row));
  const order = [...weights].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const color = (name) => COLORS[Math.min(order.indexOf(name), COLORS.length - 1)];
  const shown = order.slice(0, COLORS.length - 1).map((name) => [name, color(name)]);
  return part(
    "What runs",
    legend([...shown, order.length >= COLORS.length && ["others", "other"]]),
    bars(
      rows.map((row) => {
        const [column, rate] = row.gpu_time ? ["gpu_time", "gpu_rate"] : ["total_time", "rate"];
        return barOf(algorithms, row, {
          name: `${row.kind} ${row.direction === "unknown" ? "" : row.direction} ${row.problem}`,
          column,
          color: color(familyOf(row)),
          numbers: [column, `${groups(row.calls)} calls`],
          note: row.kind === "reorder" ? row.formats : "",
          title: row.chosen || "not told",
          pairs: {
            problem: "problem",
            type: "types",
            time: column,
            calls: "calls",
            rate,
            formats: "formats",
            "chosen by": "chooser",
            heuristic: "heuristic",
            workspace: "workspace",
            "tensor cores": "tensor_core",
          },
          explained: "chosen",
        });
      }),
    ),
  );
}

// A line per problem, a dot per candidate with a known time.
function candidates() {
  const all = table("candidates"),
    problems = new Map();
  for (const one of all.objects) {
    if (!(one.time > 0)) continue;
    const name = `${one.kind} ${one.direction || ""} ${one.problem}`;
    if (!problems.has(name)) problems.set(name, []);
    problems.get(name).push(one);
  }
  if (problems.size === 0) return null;
  const pairs = {time: "time", taken: "taken", workspace: "workspace", source: "source", "timed by": "timed_by"};
  return part(
    "Candidates with their times",
    legend({taken: "update", "tried or offered": "other"}),
    h(
      "div.candidates",
      [...problems].slice(0, 40).map(([name, of]) => {
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
              const content = () => rowCard(all, one, one.candidate, pairs, "time");
              svg.append(dot(color, x(one.time), 15, r, {label}, content));
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
    pairs = {problem: "problem", time: "total_time", "of the run": "run_percent", times: "count", by: "functions"};
  return part(
    "Cost of searching and preparing them",
    bars(
      tuning.objects.slice(0, 15).map((row) =>
        barOf(tuning, row, {
          name: `${row.activity}: ${row.kind} ${row.problem || ""}`,
          column: "total_time",
          color: "preparing",
          numbers: ["total_time", "run_percent"],
          title: row.activity,
          pairs,
        }),
      ),
    ),
  );
}

export const algorithmsView = {
  id: "algorithms",
  title: "Algorithms",
  lead: "The implementations and algorithms that libraries chose, what they cost, and what they were chosen from.",
  tables: ["algorithms", "candidates", "tuning", "convolutions"],
  none: "No library reported which algorithm it used.",
  render(section) {
    add(section, [
      hasRows("algorithms") && chosen(),
      hasRows("candidates") && candidates(),
      hasRows("tuning") && finding(),
    ]);
  },
};
