// Memory over time, and what it was held for at its peak.
import {scaleLinear} from "d3-scale";
import {curveStepAfter, line} from "d3-shape";
import {bars, legend} from "../bars.js";
import {LINES, dot, frame, responsive} from "../chart.js";
import {hasRows, page, table} from "../data.js";
import {add, h} from "../dom.js";
import {human, time} from "../format.js";
import {addressOfLayer} from "../links.js";
import {card} from "../tip.js";
import {barOf, joined, part, whyMissing} from "./parts.js";

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
    const peak = one.bytes.indexOf(Math.max(...one.bytes)),
      pairs = [
        ["at most", bytes(one.bytes[peak])],
        ["at", time(one.start[peak])],
      ];
    const label = `${one.name}: at most ${bytes(one.bytes[peak])}`;
    chart.inside.append(dot(LINES[i], ...points[peak], 4, {label}, () => card(one.name, pairs)));
  });
  return chart.svg;
}

function held() {
  const memory = table("memory"),
    pairs = {"at the peak": "at_peak", "at any time": "most", allocations: "blocks", line: "line"};
  return part(
    "Held at the peak",
    bars(
      memory.objects
        .filter((row) => row.at_peak > 0)
        .slice(0, 40)
        .map((row) =>
          barOf(memory, row, {
            name: joined([row.kind, row.layer], ": "),
            column: "at_peak",
            color: "library",
            numbers: ["at_peak", "percent"],
            note: joined([row.device, row.allocated_by]),
            href: row.layer && addressOfLayer(row.layer),
            tip: () => card(row.kind, memory.pairs(row, pairs), row.because),
          }),
        ),
    ),
  );
}

const tables = ["memory"],
  none = "No use of memory was recorded.";

export const memoryView = {
  id: "memory",
  title: "Memory",
  lead: "How much memory was in use over time, and what the frameworks' allocators held when it was most.",
  tables,
  missing: () => ((page().memory || []).length > 0 ? "" : whyMissing({tables, none})),
  render(section) {
    const over = (title, series) => {
      const shown = series.slice(0, LINES.length);
      if (shown.length === 0) return null;
      return part(
        title,
        legend(shown.map((one, i) => [`${one.name}, at most ${bytes(Math.max(...one.bytes))}`, LINES[i]])),
        series.length > shown.length && h("p.quiet", `The first ${shown.length} of ${series.length}.`),
        responsive((width) => draw(shown, width)),
      );
    };
    const ofTensors = (is) => (page().memory || []).filter((one) => one.name.startsWith("tensors") === is);
    add(section, [
      over("Of the process", ofTensors(false)),
      over("Of tensors", ofTensors(true)),
      hasRows("memory") && held(),
    ]);
  },
};
