// How long each step took, with phases and outliers.
import {scaleLinear} from "d3-scale";
import {legend} from "../bars.js";
import {frame, responsive, stack} from "../chart.js";
import {hasRows, page, processName, rankOf, table} from "../data.js";
import {add, h, replace, segments, selectBox, tickBox} from "../dom.js";
import {groups, time} from "../format.js";
import {card, tip} from "../tip.js";
import {namesOf, quantile} from "./parts.js";

const PHASES = [
  ["input", "input"],
  ["forward", "forward"],
  ["inference", "framework"],
  ["backward", "backward"],
  ["update", "update"],
  ["other", "other"],
];
const MOST_BARS = 700;

function stepsOf() {
  const steps = table("steps");
  const phases = new Map((page().step_phases || []).map(([process, start, of]) => [process + ":" + start, of]));
  return steps.objects.map((one) => {
    const of = phases.get(one.process + ":" + one.start) || {},
      step = {...one, kind: one.step || one.kind, of: {}};
    let rest = step.duration;
    for (const [name] of PHASES) {
      step.of[name] = Math.min(of[name] || 0, rest);
      rest -= step.of[name];
    }
    step.of.other += rest;
    return step;
  });
}

// Where the page has the timeline of a step; null: not here.
function timelineOf(step) {
  const window = page().timelines.windows.find((one) => one.start === step.start && one.id !== "run");
  return window ? "#timeline/" + window.id : null;
}

const tipOf = (step) => () =>
  card(
    `Step ${step.index}`,
    [
      ...table("steps").pairs(step, {duration: "duration", phase: "phase", "left out of means": "left_out", kind: "kind"}),
      ...PHASES.map(([name]) => [name, step.of[name] > 0 && time(step.of[name])]),
      ...table("steps").pairs(step, {batch: "batch", calls: "calls", begins: "start"}),
      ["timeline", timelineOf(step) ? "by a click" : "not in this page"],
    ],
    table("steps").explanation("duration"),
  );

// Where recording in windows costs something, the answer's time is of the steps between them: they are "not recorded".
const isBetween = () => time(page().answer.mean_ns) !== time(page().answer.step_ns);

function draw(steps, width, isWhole) {
  const sorted = steps.map((step) => step.duration).sort((a, b) => a - b);
  const steady = steps
    .filter((step) => (isBetween() ? step.left_out === "not recorded" : !step.left_out))
    .map((step) => step.duration)
    .sort((a, b) => a - b);
  const typical = quantile(steady.length > 0 ? steady : sorted, 0.5);
  const median = quantile(sorted, 0.5),
    q3 = quantile(sorted, 0.75),
    q1 = quantile(sorted, 0.25),
    longest = sorted[sorted.length - 1];
  const fence = Math.max(q3 + 3 * (q3 - q1), 1.5 * median);
  const top = isWhole || longest <= 1.6 * fence ? longest : fence * 1.08;
  const x = scaleLinear([0, steps.length], [0, 1]),
    y = scaleLinear([0, top * 1.04 || 1], [1, 0]);
  const chart = frame({
    width,
    height: 300,
    top: 22,
    x,
    y,
    xFormat: (i) => (Number.isInteger(i) ? groups(i) : ""),
    yFormat: time,
    xLabel: "steps in order",
    yLabel: "duration",
    label: "Duration of each step",
  });
  const bar = chart.width / steps.length,
    isBinned = steps.length > MOST_BARS;
  if (isBinned) {
    const bins = Math.floor(chart.width / 2),
      first = (i) => Math.floor((i * steps.length) / bins),
      edge = (ns) => y(Math.min(ns, top));
    for (let i = 0; i < bins; ++i) {
      const of = steps.slice(first(i), Math.max(first(i + 1), first(i) + 1)),
        durations = of.map((step) => step.duration).sort((a, b) => a - b),
        [least, lower, middle, upper, most] = [0, 0.25, 0.5, 0.75, 1].map((part) => quantile(durations, part));
      const rect = (color, width, from, to) =>
        h("rect." + color, {x: i * 2, width, y: from, height: Math.max(1, to - from)});
      const bin = h(
        "g.step",
        rect("framework", 2, edge(middle), chart.height),
        rect("library", 1.6, edge(upper), edge(lower)),
        most > fence && rect("backward", 2, edge(most) - 2, edge(most) + 1),
      );
      tip(bin, () =>
        card(`Steps ${of[0].index} to ${of[of.length - 1].index}`, [
          ["shortest", time(least)],
          ["middle half", `${time(lower)} to ${time(upper)}`],
          ["median", time(middle)],
          ["longest", time(most)],
        ]),
      );
      chart.inside.append(bin);
    }
  } else {
    steps.forEach((step, i) => {
      const href = timelineOf(step),
        open = () => (location.hash = href);
      const group = h(
        href ? "g.step.link" : "g.step",
        {
          tabindex: i === 0 ? 0 : -1,
          role: href ? "link" : "img",
          onclick: href && open,
          onkeydown: (event) => {
            const to = {ArrowLeft: group.previousSibling, ArrowRight: group.nextSibling}[event.key];
            if (event.key === "Enter" && href) open();
            if (to?.classList.contains("step")) to.focus();
          },
          "aria-label": `Step ${step.index}: ${time(step.duration)}`,
          "data-value": step.duration,
        },
        stack(
          PHASES.map(([name, color]) => [color, step.of[name]]),
          {x: x(i), y, width: Math.max(bar - (bar > 4 ? 1 : 0.2), 0.5), top},
        ),
      );
      if (step.phase === "warm-up")
        group.append(h("rect.preparing", {x: x(i), width: Math.max(bar - 0.2, 1.5), y: chart.height + 1, height: 4}));
      if (step.duration > top) group.append(h("path.backward", {d: `M${x(i) + bar / 2 - 4},-2h8l-4,-7z`}));
      tip(group, tipOf(step));
      chart.inside.append(group);
    });
  }
  chart.inside.append(
    h("line.median", {x1: 0, x2: chart.width, y1: y(typical), y2: y(typical)}),
    h(
      "text.strong",
      {x: chart.width, y: -8, "text-anchor": "end"},
      `${steady.length === 0 ? "" : isBetween() ? "between windows, " : "steady "}median ${time(typical)}`,
    ),
  );
  return {svg: chart.svg, cut: top < longest};
}

export const stepsView = {
  id: "steps",
  title: "Steps",
  lead: "How long each step took, and what it spent its time on.",
  tables: ["phases", "latency", "steps"],
  none: "No repeating step was found in this run.",
  render(section) {
    if (hasRows("steps")) {
      const all = stepsOf(),
        kinds = [...new Set(all.map((step) => step.kind))];
      const weight = (kind) => all.filter((step) => step.kind === kind).length;
      kinds.sort((a, b) => weight(b) - weight(a));
      const processes = [...new Set(all.map((step) => step.process))].sort((a, b) => rankOf(a) - rankOf(b));
      const state = {kind: kinds[0], process: processes[0], isWhole: false};
      const box = h("div"),
        note = h("p.quiet");
      const change = (key) => (value) => {
        state[key] = value;
        redraw();
      };
      const redraw = () => {
        const steps = all.filter((step) => step.kind === state.kind && step.process === state.process);
        replace(
          box,
          responsive((width) => {
            const {svg, cut} = draw(steps, width, state.isWhole);
            replace(
              note,
              `${groups(steps.length)} ${state.kind} steps. `,
              ...[...new Set(steps.map((step) => step.left_out))].filter(Boolean).map((why) => {
                const those = steps.filter((step) => step.left_out === why).sort((a, b) => b.duration - a.duration);
                if (why === "not recorded")
                  return `Of ${groups(those.length)} only the time is recorded${isBetween() ? ", which the answer is of" : ""}. `;
                const named = those.slice(0, 6).map((step) => `step ${step.index} (${time(step.duration)})`);
                const more = those.length > 6 ? ` and ${groups(those.length - 6)} more` : "";
                return `Left out of means, ${why}: ${named.join(", ")}${more}. `;
              }),
              cut && steps.length <= MOST_BARS && "Triangles mark steps that reach beyond the chart.",
            );
            const shown = PHASES.filter(([name]) => steps.some((step) => step.of[name] > 0));
            return [
              steps.length > MOST_BARS
                ? legend({
                    "the middle half of neighbours": "library",
                    "up to their median": "framework",
                    "much longer ones": "backward",
                  })
                : legend([
                    ...shown,
                    steps.some((step) => step.phase === "warm-up") && ["warm-up, below the axis", "preparing"],
                  ]),
              svg,
            ];
          }),
        );
      };
      add(section, [
        h(
          "div.controls",
          kinds.length > 1 && segments("Steps", namesOf(kinds), state.kind, change("kind")),
          processes.length > 1 &&
            selectBox(
              "Process",
              processes.map((process) => [process, processName(process)]),
              state.process,
              (process) => change("process")(Number(process)),
            ),
          tickBox("Show the longest steps whole", change("isWhole")),
        ),
        box,
        note,
      ]);
      redraw();
    }
  },
};
