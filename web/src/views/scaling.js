// Runs on more devices: speed-up against the ideal, and what a step consists of.
import {scaleLinear} from "d3-scale";
import {line} from "d3-shape";
import {bars, legend} from "../bars.js";
import {dot, frame, responsive} from "../chart.js";
import {table} from "../data.js";
import {add, h} from "../dom.js";
import {percent, time} from "../format.js";
import {rowCard} from "../tip.js";
import {barOf, part} from "./parts.js";

const PARTS = [
  ["compute_time", "computing", "kernel"],
  ["exposed_communication_time", "exposed communication", "communication"],
  ["exposed_copy_time", "exposed copies", "copy"],
  ["idle_time", "idle", "other"],
];
const PAIRS = {
  devices: "devices",
  "speed-up": "speed_up",
  efficiency: "efficiency",
  step: "step_time",
  lost: "lost",
  grew: "grew",
};

function speedUp(scaling, width) {
  const known = scaling.objects.filter((row) => row.speed_up !== null).sort((a, b) => a.devices - b.devices);
  const most = Math.max(...scaling.objects.map((row) => row.devices)),
    least = Math.min(...scaling.objects.map((row) => row.devices));
  const x = scaleLinear([0, most * 1.08], [0, 1]),
    y = scaleLinear([0, Math.max(most / least, ...known.map((row) => row.speed_up)) * 1.08], [1, 0]);
  const chart = frame({
    width,
    height: 320,
    top: 22,
    x,
    y,
    xFormat: (value) => (Number.isInteger(value) ? value : ""),
    yFormat: (value) => `${value} ×`,
    xTicks: Math.min(10, Math.ceil(most)),
    xLabel: "devices",
    yLabel: "speed-up",
    label: "Speed-up by number of devices",
  });
  const path = (points) => line()(points.map((point) => [x(point[0]), y(point[1])]));
  chart.inside.append(
    h("path.roof.dashed", {
      d: path([
        [0, 0],
        [most, most / least],
      ]),
    }),
    h("text", {x: x(most), y: y(most / least) - 10, "text-anchor": "end"}, "ideal"),
    h("path.line.library", {d: path(known.map((row) => [row.devices, row.speed_up]))}),
  );
  for (const [i, row] of known.entries()) {
    const falls = (known[i + 1]?.speed_up ?? Infinity) < row.speed_up, // the line goes on below the point
      isLeft = row.devices > 0.7 * most;
    const more = {label: `${row.devices} devices: ${row.speed_up.toFixed(2)} times`, "data-value": row.speed_up};
    chart.inside.append(
      dot("library", x(row.devices), y(row.speed_up), 7, more, () => rowCard(scaling, row, row.run, PAIRS, "speed_up")),
      h(
        "text.strong",
        {
          x: x(row.devices) + (isLeft ? -12 : 12),
          y: y(row.speed_up) + (falls ? -12 : 18),
          "text-anchor": isLeft ? "end" : "start",
        },
        `${row.speed_up.toFixed(2)} × ${row.efficiency === null ? "" : `(${percent(row.efficiency)})`}`,
      ),
    );
  }
  return chart.svg;
}

export const scalingView = {
  id: "scaling",
  title: "Scaling",
  lead: "Runs on more devices, compared with the one on fewest.",
  tables: ["scaling"],
  none: "There is nothing to compare.",
  render(section) {
    const scaling = table("scaling"),
      rows = scaling.objects,
      parts = PARTS.filter(([key]) => rows.some((row) => row[key] > 0));
    add(section, [
      rows.some((row) => row.speed_up !== null) &&
        part(
          "Speed-up",
          responsive((width) => speedUp(scaling, width)),
        ),
      part(
        "A mean step",
        parts.length > 0 && legend(parts.map(([, ...nameAndColor]) => nameAndColor)),
        bars(
          rows.map((row) =>
            barOf(scaling, row, {
              name: row.run,
              column: "step_time",
              color: "library",
              numbers: [time(row.step_time), row.efficiency === null ? "–" : `${percent(row.efficiency)} efficient`],
              note: `${row.devices} ${row.devices === 1 ? "device" : "devices"}`,
              pairs: PAIRS,
              explained: "speed_up",
              ...(parts.length > 0 && {parts: parts.map(([key, , color]) => ({value: row[key] || 0, color}))}),
            }),
          ),
        ),
      ),
    ]);
  },
};
