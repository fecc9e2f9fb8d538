// What the processor and the kernel counted, by layer and over time.
import {scaleLinear} from "d3-scale";
import {line} from "d3-shape";
import {bars} from "../bars.js";
import {LINES, dot, frame, responsive} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h, replace} from "../dom.js";
import {hasUnitInside, human, time} from "../format.js";
import {card} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

const PLACES = new Set(["start", "duration", "index", "process", "wall_share", "running_percent", "estimated_percent"]);
const MOST_DOTS = 400;

const text = (value, column) =>
  `${human(value, column.unit, column.type)}${column.unit && !hasUnitInside(column.unit) && value !== null ? " " + column.unit : ""}`;

function overTime(all, name, width) {
  const column = all.column(name),
    known = all.rows.filter((row) => all.get(row, name) !== null);
  // What lies between steps lasts much longer or shorter.
  const inSteps = known.filter((row) => all.get(row, "index") !== null);
  const rows = (inSteps.length > 1 ? inSteps : known).sort((a, b) => all.get(a, "start") - all.get(b, "start"));
  const threads = [...new Set(rows.map((row) => `${all.get(row, "process")} ${all.get(row, "thread") || ""}`))].slice(
    0,
    LINES.length,
  );
  const ends = rows.map((row) => all.get(row, "start") + all.get(row, "duration"));
  const x = scaleLinear([Math.min(...rows.map((row) => all.get(row, "start"))), Math.max(...ends)], [0, 1]);
  const y = scaleLinear([0, Math.max(...rows.map((row) => all.get(row, name)), 1e-9) * 1.08], [1, 0]);
  const chart = frame({
    width,
    height: 280,
    left: 76,
    top: 22,
    x,
    y,
    xFormat: time,
    yFormat: (value) => text(value, {...column, type: "real"}),
    xLabel: "since the run began",
    yLabel: name.replace(/_/g, " "),
    label: `${name} over time`,
  });
  threads.forEach((thread, i) => {
    const of = rows.filter((row) => `${all.get(row, "process")} ${all.get(row, "thread") || ""}` === thread);
    const at = (row) => [x(all.get(row, "start") + all.get(row, "duration") / 2), y(all.get(row, name))];
    chart.inside.append(h(`path.line.${LINES[i]}`, {d: line()(of.map(at))}));
    for (const row of of.length * 8 < chart.width
      ? of
      : of.length <= MOST_DOTS
        ? of.filter((one, at) => at % Math.ceil((of.length * 8) / chart.width) === 0)
        : []) {
      const label = text(all.get(row, name), column);
      chart.inside.append(
        dot(LINES[i], ...at(row), 3.2, {label, "data-value": all.get(row, name)}, () =>
          card(
            name.replace(/_/g, " "),
            [
              ["value", text(all.get(row, name), column)],
              ["step", all.get(row, "index")],
              ["phase", all.get(row, "phase")],
              ["begins", time(all.get(row, "start"))],
              ["lasts", time(all.get(row, "duration"))],
              ["thread", all.get(row, "thread")],
            ],
            column.explanation,
          ),
        ),
      );
    }
  });
  return chart.svg;
}

function byLayer(all, name) {
  const column = all.column(name);
  const rows = all.rows
    .filter((row) => all.get(row, name) > 0)
    .sort((a, b) => all.get(b, name) - all.get(a, name))
    .slice(0, 15);
  const label = (row) =>
    [all.get(row, "layer") || all.get(row, "phase") || all.get(row, "thread") || "–", all.get(row, "direction")]
      .filter(Boolean)
      .join(" ");
  return bars(
    rows.map((row) => ({
      name: label(row),
      parts: [{value: all.get(row, name), color: "library"}],
      numbers: [text(all.get(row, name), column)],
      data: {value: all.get(row, name)},
      tip: () =>
        card(
          label(row),
          [
            [name.replace(/_/g, " "), text(all.get(row, name), column)],
            ["wall share", all.get(row, "wall_share") === null ? null : time(all.get(row, "wall_share"))],
          ],
          column.explanation,
        ),
    })),
  );
}

export const countersView = {
  id: "counters",
  title: "Counters",
  lead: "What the processor and the kernel counted.",
  missing: () => missingTables(["counters", "counters_over_time"], "No counters were read."),
  render(section) {
    const tables = ["counters_over_time", "counters"].filter(hasRows).map(table);
    const names = [
      ...new Set(
        tables.flatMap((one) =>
          one.columns
            .filter((column) => column.type !== "text" && !PLACES.has(column.name) && one.isKnown(column.name))
            .map((column) => column.name),
        ),
      ),
    ];
    const box = h("div");
    const draw = (name) =>
      replace(
        box,
        hasRows("counters_over_time") &&
          table("counters_over_time").isKnown(name) &&
          part(
            "Over time",
            responsive((width) => overTime(table("counters_over_time"), name, width)),
          ),
        hasRows("counters") && table("counters").isKnown(name) && part("Where", byLayer(table("counters"), name)),
      );
    add(section, [
      h(
        "div.controls",
        h(
          "label.field",
          "Counter ",
          h(
            "select",
            {onchange: (event) => draw(event.target.value)},
            names.map((name) => h("option", {value: name}, name.replace(/_/g, " "))),
          ),
        ),
      ),
      box,
      part("Tables", tablesOf(["counters", "counters_over_time"])),
    ]);
    if (names.length > 0) draw(names[0]);
  },
};
