// Frames of charts in SVG: as wide as their place, with axes.
import {axisBottom, axisLeft} from "d3-axis";
import {select} from "d3-selection";
import {h, replace} from "./dom.js";
import {tip} from "./tip.js";

// Colours of the lines of one chart.
export const LINES = ["library", "backward", "update", "recompute", "input", "other"];

// Calls draw(width) now and whenever the width changes; it returns the chart's elements.
export function responsive(draw) {
  const box = h("div.chart-box");
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(box.clientWidth);
    if (now === 0 || now === width) return;
    width = now;
    replace(box, draw(width));
  }).observe(box);
  return box;
}

// A point of a chart: `label` is read out, `content` makes its tooltip.
export const dot = (kind, cx, cy, r, {label, ...more}, content) =>
  tip(h(`circle.mark.${kind}`, {cx, cy, r, tabindex: 0, role: "img", "aria-label": label, ...more}), content);

const RIGHT = 12,
  BOTTOM = 40;

// {svg, inside}: `inside` is the group in which (0, 0) is the upper left corner of the plot.
export function frame({
  width,
  height,
  left = 64,
  top = 12,
  x,
  y,
  xFormat,
  yFormat,
  xLabel,
  yLabel,
  xTicks,
  powers = false,
  label,
}) {
  const svg = h("svg.chart", {viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label});
  const inside = h("g", {transform: `translate(${left},${top})`});
  const inner = {width: width - left - RIGHT, height: height - top - BOTTOM};
  x.range([0, inner.width]);
  y.range([inner.height, 0]);
  // Of a logarithmic scale only powers of ten.
  const tens = powers ? y.ticks().filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e9) / 1e9)) : null;
  const yAxis = () => axisLeft(y).ticks(5).tickValues(tens);
  const xAxis = axisBottom(x)
    .ticks(xTicks || Math.max(2, Math.floor(inner.width / 110)))
    .tickFormat((value) => (value === 0 ? "0" : xFormat(value)))
    .tickSizeOuter(0);
  const draw = (what, axis) => select(what).call(axis).attr("font-size", null).attr("font-family", null);
  const [grid, below, beside] = [h("g.grid"), h("g", {transform: `translate(0,${inner.height})`}), h("g")];
  draw(grid, yAxis().tickSize(-inner.width).tickFormat("")).select(".domain").remove();
  draw(below, xAxis);
  draw(
    beside,
    yAxis()
      .tickFormat((value) => (value === 0 ? "0" : yFormat(value)))
      .tickSize(0)
      .tickPadding(8),
  );
  inside.append(grid, below, beside);
  if (xLabel) inside.append(h("text", {x: inner.width, y: inner.height + 34, "text-anchor": "end"}, xLabel));
  if (yLabel) inside.append(h("text", {x: 4 - left, y: 10 - top, "text-anchor": "start"}, yLabel));
  svg.append(inside);
  return {svg, inside, ...inner};
}

// Coloured parts of one bar, [color, length] each on the one before, cut off at `top`.
export function stack(parts, {x, y, width, top}) {
  let from = 0;
  return parts.map(([color, length]) => {
    const to = Math.min(from + length, top),
      rect = to > from && h("rect." + color, {x, width, y: y(to), height: y(from) - y(to)});
    from = to;
    return rect;
  });
}
