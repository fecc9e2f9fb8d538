// Memory over time, and what it was held for at its peak.
import {scaleLinear} from "d3-scale";
import {curveStepAfter, line} from "d3-shape";
import {bars, legend} from "../bars.js";
import {LINES, dot, frame, responsive} from "../chart.js";
import {hasRows, page, table} from "../data.js";
import {add, h} from "../dom.js";
import {groups, human, percent, time} from "../format.js";
import {addressOfLayer} from "../links.js";
import {card} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

const bytes = (value) => human(value, "bytes");

function draw(series, width) {
  const flat = (key) => series.flatMap((one) => one[key]);
  const most = Math.max(...flat("bytes")),
    end = Math.max(...flat("start"));
  const unit = 1024 ** Math.floor(Math.log2(most) / 10);
  const x = scaleLinear([Math.min(...flat("start")), end], [0, 1]),
    y = scaleLinear([0, (most / unit) * 1.08], [1, 0]);
  const chart = frame({
    width,
    height: 280,
    left: 76,
    top: 22,
    x,
    y,
    xFormat: time,
    yFormat: (value) => `${value} ${bytes(unit).split(" ")[1]}`,
    xLabel: "since the run began",
    label: "Memory over time",
  });
  series.forEach((one, i) => {
    const points = one.start.map((start, at) => [x(start), y(one.bytes[at] / unit)]);
    points.push([x(end), points[points.length - 1][1]]);
    chart.inside.append(h(`path.line.${LINES[i]}`, {d: line().curve(curveStepAfter)(points)}));
    const peak = one.bytes.indexOf(Math.max(...one.bytes));
    const label = `${one.name}: at most ${bytes(one.bytes[peak])}`;
    chart.inside.append(
      dot(LINES[i], ...points[peak], 4, {label}, () =>
        card(one.name, [
          ["at most", bytes(one.bytes[peak])],
          ["at", time(one.start[peak])],
        ]),
      ),
    );
  });
  return chart.svg;
}

function held() {
  const memory = table("memory"),
    get = (row, name) => memory.get(row, name);
  return part(
    "Held at the peak",
    bars(
      memory.rows
        .filter((row) => get(row, "at_peak") > 0)
        .slice(0, 40)
        .map((row) => ({
          name: [get(row, "kind"), get(row, "layer")].filter(Boolean).join(": "),
          note: [get(row, "device"), get(row, "allocated_by")].filter(Boolean).join(", "),
          parts: [{value: get(row, "at_peak"), color: "library"}],
          numbers: [bytes(get(row, "at_peak")), percent(get(row, "percent"))],
          data: {value: get(row, "at_peak")},
          href: get(row, "layer") && addressOfLayer(get(row, "layer")),
          tip: () =>
            card(
              get(row, "kind"),
              [
                ["at the peak", bytes(get(row, "at_peak"))],
                ["at any time", get(row, "most") === null ? null : bytes(get(row, "most"))],
                ["allocations", get(row, "blocks") === null ? null : groups(get(row, "blocks"))],
                ["line", get(row, "line")],
              ],
              get(row, "because"),
            ),
        })),
    ),
  );
}

export const memoryView = {
  id: "memory",
  title: "Memory",
  lead: "How much memory was in use over time, and what the frameworks' allocators held when it was most.",
  missing: () => ((page().memory || []).length > 0 ? "" : missingTables(["memory"], "No use of memory was recorded.")),
  render(section) {
    const series = page().memory || [],
      isTensors = (one) => one.name.startsWith("tensors");
    const over = (title, all) =>
      all.length > 0 &&
      part(
        title,
        legend(
          all
            .slice(0, LINES.length)
            .map((one, i) => ({name: `${one.name}, at most ${bytes(Math.max(...one.bytes))}`, color: LINES[i]})),
        ),
        all.length > LINES.length && h("p.quiet", `The first ${LINES.length} of ${all.length}.`),
        responsive((width) => draw(all.slice(0, LINES.length), width)),
      );
    add(section, [
      over(
        "Of the process",
        series.filter((one) => !isTensors(one)),
      ),
      over("Of tensors", series.filter(isTensors)),
      hasRows("memory") && held(),
      hasRows("memory") && part("Table", tablesOf(["memory"])),
    ]);
  },
};
