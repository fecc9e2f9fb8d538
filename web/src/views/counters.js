// What the processor and the kernel counted, by layer and over time.
import {scaleLinear} from "d3-scale";
import {line} from "d3-shape";
import {bars} from "../bars.js";
import {LINES, dot, frame, responsive} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h, replace, selectBox} from "../dom.js";
import {amount, time} from "../format.js";
import {rowCard} from "../tip.js";
import {barOf, joined, part} from "./parts.js";

const PLACES = new Set(["start", "duration", "index", "process", "wall_share", "running_percent", "estimated_percent"]);
const MOST_DOTS = 400;

const label = (name) => name.replace(/_/g, " ");

function overTime(all, name, width) {
  const known = all.objects.filter((row) => row[name] !== null);
  // What lies between steps lasts much longer or shorter.
  const inSteps = known.filter((row) => (row.index ?? null) !== null);
  const rows = (inSteps.length > 1 ? inSteps : known).sort((a, b) => a.start - b.start);
  const threadOf = (row) => `${row.process} ${row.thread || ""}`;
  const threads = [...new Set(rows.map(threadOf))].slice(0, LINES.length);
  const ends = rows.map((row) => row.start + row.duration);
  const x = scaleLinear([Math.min(...rows.map((row) => row.start)), Math.max(...ends)], [0, 1]);
  const y = scaleLinear([0, Math.max(...rows.map((row) => row[name]), 1e-9) * 1.08], [1, 0]);
  const chart = frame({
    width,
    height: 280,
    left: 76,
    top: 22,
    x,
    y,
    xFormat: time,
    yFormat: (value) => amount(value, all.column(name).unit, "real"),
    xLabel: "since the run began",
    yLabel: label(name),
    label: `${name} over time`,
  });
  const pairs = {value: name, step: "index", phase: "phase", begins: "start", lasts: "duration", thread: "thread"};
  threads.forEach((thread, i) => {
    const of = rows.filter((row) => threadOf(row) === thread),
      at = (row) => [x(row.start + row.duration / 2), y(row[name])],
      stride = Math.ceil((of.length * 8) / chart.width);
    chart.inside.append(h(`path.line.${LINES[i]}`, {d: line()(of.map(at))}));
    for (const row of of.length <= MOST_DOTS ? of.filter((one, place) => place % stride === 0) : []) {
      const more = {label: all.text(row, name), "data-value": row[name]};
      chart.inside.append(dot(LINES[i], ...at(row), 3.2, more, () => rowCard(all, row, label(name), pairs, name)));
    }
  });
  return chart.svg;
}

function byLayer(all, name) {
  const rows = all.objects
    .filter((row) => row[name] > 0)
    .sort((a, b) => b[name] - a[name])
    .slice(0, 15);
  return bars(
    rows.map((row) =>
      barOf(all, row, {
        name: joined([row.layer || row.phase || row.thread || "–", row.direction], " "),
        column: name,
        color: "library",
        numbers: [name],
        pairs: {[label(name)]: name, "wall share": "wall_share"},
      }),
    ),
  );
}

export const countersView = {
  id: "counters",
  title: "Counters",
  lead: "What the processor and the kernel counted.",
  tables: ["counters", "counters_over_time"],
  none: "No counters were read.",
  render(section) {
    const [where, when] = ["counters", "counters_over_time"].map((name) => hasRows(name) && table(name));
    const names = [when, where].filter(Boolean).flatMap((one) =>
      one.columns
        .filter((column) => column.type !== "text" && !PLACES.has(column.name) && one.isKnown(column.name))
        .map((column) => column.name),
    );
    const box = h("div");
    const draw = (name) =>
      replace(
        box,
        when &&
          when.isKnown(name) &&
          part(
            "Over time",
            responsive((width) => overTime(when, name, width)),
          ),
        where && where.isKnown(name) && part("Where", byLayer(where, name)),
      );
    add(section, [
      h(
        "div.controls",
        h(
          "label.field",
          "Counter ",
          selectBox(
            "Counter",
            [...new Set(names)].map((name) => [name, label(name)]),
            names[0],
            draw,
          ),
        ),
      ),
      box,
    ]);
    if (names.length > 0) draw(names[0]);
  },
};
