// Runs on more devices: speed-up against the ideal, and what a step consists of.
import {scaleLinear} from "d3-scale";
import {line} from "d3-shape";
import {bars, legend} from "../bars.js";
import {dot, frame, responsive} from "../chart.js";
import {table} from "../data.js";
import {add, h} from "../dom.js";
import {percent, time} from "../format.js";
import {card} from "../tip.js";
import {part, tablesOf} from "./parts.js";

const PARTS = [
  ["compute_time", "computing", "kernel"],
  ["exposed_communication_time", "exposed communication", "communication"],
  ["exposed_copy_time", "exposed copies", "copy"],
  ["idle_time", "idle", "other"],
];

function speedUp(rows, width) {
  const most = Math.max(...rows.map((row) => row.devices)),
    least = Math.min(...rows.map((row) => row.devices));
  const x = scaleLinear([0, most * 1.08], [0, 1]),
    y = scaleLinear([0, Math.max(most / least, ...rows.map((row) => row.speedUp || 0)) * 1.08], [1, 0]);
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
  const path = line()
    .x((point) => x(point[0]))
    .y((point) => y(point[1]));
  const known = rows.filter((row) => row.speedUp !== null).sort((a, b) => a.devices - b.devices);
  chart.inside.append(
    h("path.roof.dashed", {
      d: path([
        [0, 0],
        [most, most / least],
      ]),
    }),
    h("text", {x: x(most), y: y(most / least) - 10, "text-anchor": "end"}, "ideal"),
    h("path.line.library", {d: path(known.map((row) => [row.devices, row.speedUp]))}),
  );
  for (const [i, row] of known.entries()) {
    const falls = (known[i + 1]?.speedUp ?? Infinity) < row.speedUp; // the line goes on below the point
    const label = `${row.devices} devices: ${row.speedUp.toFixed(2)} times`;
    chart.inside.append(
      dot("library", x(row.devices), y(row.speedUp), 7, {label, "data-value": row.speedUp}, row.tip),
      h(
        "text.strong",
        {
          x: x(row.devices) + (row.devices > 0.7 * most ? -12 : 12),
          y: y(row.speedUp) + (falls ? -12 : 18),
          "text-anchor": row.devices > 0.7 * most ? "end" : "start",
        },
        `${row.speedUp.toFixed(2)} × ${row.efficiency === null ? "" : `(${percent(row.efficiency)})`}`,
      ),
    );
  }
  return chart.svg;
}

export const scalingView = {
  id: "scaling",
  title: "Scaling",
  lead: "Runs on more devices, compared with the one on fewest.",
  missing: () => (table("scaling") ? "" : "There is nothing to compare."),
  render(section) {
    const scaling = table("scaling"),
      get = (cells, name) => scaling.get(cells, name);
    const rows = scaling.rows.map((cells) => ({
      cells,
      name: get(cells, "run"),
      devices: get(cells, "devices") || 0,
      speedUp: get(cells, "speed_up"),
      efficiency: get(cells, "efficiency"),
      tip: () =>
        card(
          get(cells, "run"),
          [
            ["devices", get(cells, "devices")],
            ["speed-up", get(cells, "speed_up") === null ? null : `${get(cells, "speed_up").toFixed(2)} ×`],
            ["efficiency", get(cells, "efficiency") === null ? null : percent(get(cells, "efficiency"))],
            ["step", time(get(cells, "step_time"))],
            ["lost", get(cells, "lost") === null ? null : time(get(cells, "lost"))],
            ["grew", get(cells, "grew")],
          ],
          scaling.explanation("speed_up"),
        ),
    }));
    const parts = PARTS.filter(([key]) => rows.some((row) => get(row.cells, key) > 0));
    add(section, [
      rows.some((row) => row.speedUp !== null) &&
        part(
          "Speed-up",
          responsive((width) => speedUp(rows, width)),
        ),
      part(
        "A mean step",
        parts.length > 0 && legend(parts.map(([, name, color]) => ({name, color}))),
        bars(
          rows.map((row) => ({
            name: row.name,
            note: `${row.devices} ${row.devices === 1 ? "device" : "devices"}`,
            tip: row.tip,
            parts:
              parts.length > 0
                ? parts.map(([key, , color]) => ({value: get(row.cells, key) || 0, color}))
                : [{value: get(row.cells, "step_time") || 0, color: "library"}],
            numbers: [time(get(row.cells, "step_time")), row.efficiency === null ? "–" : `${percent(row.efficiency)} efficient`],
            data: {value: get(row.cells, "step_time")},
          })),
        ),
      ),
      part("Table", tablesOf(["scaling"])),
    ]);
  },
};
