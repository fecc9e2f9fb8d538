// What GPUs were busy with, and why they were idle.
import {scaleLinear} from "d3-scale";
import {bars, legend} from "../bars.js";
import {frame, responsive, stack} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h} from "../dom.js";
import {percent, time} from "../format.js";
import {rowCard, tip} from "../tip.js";
import {barOf, joined, part} from "./parts.js";

const WORK = [
  ["compute", "computing", "kernel"],
  ["exposed_communication", "exposed communication", "communication"],
  ["copy", "exposed copies", "copy"],
  ["idle", "idle", "other"],
];
const CAUSES = {
  copies: "copy",
  synchronization: "waiting",
  "launch-bound": "library",
  "input pipeline": "input",
  "no processor": "waiting",
  communication: "communication",
};

function devices() {
  const all = table("devices"),
    pairs = {
      busy: "busy",
      computing: "compute",
      copying: "copy",
      communicating: "communication",
      idle: "idle",
      of: "time",
      steps: "steps",
      "times from": "source",
    };
  return part(
    "Devices",
    legend(WORK.map(([, ...nameAndColor]) => nameAndColor)),
    bars(
      all.objects.map((one) => {
        const copied = (one.busy / 100) * one.time - one.compute - one.exposed_communication,
          parts = {...one, copy: Math.max(0, copied)};
        const name = `${one.rank === null ? "" : `rank ${one.rank}, `}GPU ${one.device}`;
        return {
          name,
          note: one.name || "",
          parts: WORK.map(([key, , color]) => ({value: parts[key], color})),
          numbers: [`${percent(one.busy)} busy`, time(one.time)],
          data: {value: one.busy || 0},
          tip: () => rowCard(all, one, name, pairs, "busy"),
        };
      }),
    ),
  );
}

function idle() {
  const all = table("gpu_idle"),
    hasSeveral = new Set(all.objects.map((one) => one.device)).size > 1;
  return part(
    "Why GPUs do not compute, in a mean step",
    bars(
      all.objects
        .filter((one) => one.time > 0)
        .sort((a, b) => b.time - a.time)
        .slice(0, 20)
        .map((one) =>
          barOf(all, one, {
            name: joined([one.cause, one.during], ": "),
            column: "time",
            color: CAUSES[one.cause] || "other",
            numbers: ["time", "percent"],
            note: joined([one.line, hasSeveral && `GPU ${one.device}`]),
            pairs: {
              "in a mean step": "time",
              "of the step": "percent",
              "of the idle time": "idle_percent",
              gaps: "gaps",
              longest: "longest",
              "ended by": "then",
              layer: "layer",
              line: "line",
            },
            explained: "cause",
          }),
        ),
    ),
  );
}

function overTime() {
  const all = table("overlap_over_time"),
    nameOf = (one) => `Process ${one.process}, GPU ${one.device}`,
    devices = [...new Set(all.objects.map(nameOf))];
  const pairs = {
    duration: "duration",
    computing: "compute_percent",
    copies: "copies",
    "of them during compute": "copies_beside_compute",
    communication: "communication",
    idle: "idle",
  };
  return part(
    "Over time",
    legend({computing: "kernel", "copies alone": "copy", "communication alone": "communication", idle: "other"}),
    devices.slice(0, 8).map((device) => {
      const rows = all.objects.filter((one) => (one.index ?? null) !== null && nameOf(one) === device).slice(-600);
      return [
        devices.length > 1 && h("h3", device),
        responsive((width) => {
          const x = scaleLinear([0, rows.length], [0, 1]),
            y = scaleLinear([0, 100], [1, 0]);
          const chart = frame({
            width,
            height: 200,
            x,
            y,
            xFormat: (i) => (Number.isInteger(i) ? i : ""),
            yFormat: (value) => `${value} %`,
            xLabel: "steps in order",
            label: "What the GPU did in each step",
          });
          rows.forEach((one, i) => {
            const whole = one.measured || one.duration || 1,
              parts = [
                ["kernel", one.compute],
                ["copy", one.copies - one.copies_beside_compute],
                ["communication", one.communication - one.communication_beside_compute],
                ["other.faint", whole],
              ];
            const group = h(
              "g.step",
              {tabindex: 0, role: "img", "aria-label": `step ${one.index}`},
              stack(
                parts.map(([color, ns]) => [color, (100 * Math.max(0, ns)) / whole]),
                {x: x(i), y, width: Math.max(chart.width / rows.length - 0.6, 0.5), top: 100},
              ),
            );
            chart.inside.append(
              tip(group, () => rowCard(all, one, `${one.kind} step ${one.index}`, pairs, "compute_percent")),
            );
          });
          return chart.svg;
        }),
      ];
    }),
  );
}

export const gpuView = {
  id: "gpu",
  title: "GPUs",
  lead: "What each GPU was busy with, and why it did not compute the rest of the time.",
  tables: ["devices", "gpu_idle", "launches", "overlap", "overlap_over_time", "guided"],
  none: "This run used no GPU.",
  notesOf: "gpu_idle",
  render(section) {
    add(section, [
      hasRows("devices") && devices(),
      hasRows("gpu_idle") && idle(),
      hasRows("overlap_over_time") && overTime(),
    ]);
  },
};
