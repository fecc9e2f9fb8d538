// What GPUs were busy with, and why they were idle.
import {scaleLinear} from "d3-scale";
import {isNamed} from "../address.js";
import {bars, legend} from "../bars.js";
import {frame, responsive} from "../chart.js";
import {hasRows, table} from "../data.js";
import {add, h, notes} from "../dom.js";
import {groups, percent, time} from "../format.js";
import {card, tip} from "../tip.js";
import {missingTables, part, tablesOf} from "./parts.js";

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
    get = (row, name) => all.get(row, name) || 0;
  return part(
    "Devices",
    legend(WORK.map(([, name, color]) => ({name, color}))),
    bars(
      all.rows.map((row) => {
        const busy = (get(row, "busy") / 100) * get(row, "time");
        const parts = {
          compute: get(row, "compute"),
          exposed_communication: get(row, "exposed_communication"),
          idle: get(row, "idle"),
        };
        parts.copy = Math.max(0, busy - parts.compute - parts.exposed_communication);
        const name = `${all.get(row, "rank") === null ? "" : `rank ${all.get(row, "rank")}, `}GPU ${all.get(row, "device")}`;
        return {
          name,
          note: all.get(row, "name") || "",
          parts: WORK.map(([key, , color]) => ({value: parts[key], color})),
          numbers: [`${percent(get(row, "busy"))} busy`, time(get(row, "time"))],
          data: {value: get(row, "busy")},
          tip: () =>
            card(
              name,
              [
                ["busy", percent(get(row, "busy"))],
                ["computing", time(parts.compute)],
                ["copying", time(get(row, "copy"))],
                ["communicating", time(get(row, "communication"))],
                ["idle", time(parts.idle)],
                ["of", time(get(row, "time"))],
                ["steps", groups(get(row, "steps"))],
                ["times from", all.get(row, "source")],
              ],
              all.explanation("busy"),
            ),
        };
      }),
    ),
  );
}

function idle() {
  const all = table("gpu_idle"),
    get = (row, name) => all.get(row, name);
  const nameOf = (row) => [get(row, "cause"), get(row, "during")].filter(Boolean).join(": ");
  const rows = all.rows
    .map((row) => ({
      name: nameOf(row),
      isTarget: isNamed("row", all, row),
      note: [
        get(row, "line"),
        all.rows.some((one) => get(one, "device") !== get(row, "device")) ? `GPU ${get(row, "device")}` : "",
      ]
        .filter(Boolean)
        .join(", "),
      parts: [{value: get(row, "time") || 0, color: CAUSES[get(row, "cause")] || "other"}],
      numbers: [time(get(row, "time")), percent(get(row, "percent"))],
      data: {value: get(row, "time")},
      tip: () =>
        card(
          nameOf(row),
          [
            ["in a mean step", time(get(row, "time"))],
            ["of the step", percent(get(row, "percent"))],
            ["of the idle time", percent(get(row, "idle_percent"))],
            ["gaps", groups(get(row, "gaps"))],
            ["longest", time(get(row, "longest"))],
            ["ended by", get(row, "then")],
            ["layer", get(row, "layer")],
            ["line", get(row, "line")],
          ],
          all.explanation("cause"),
        ),
    }))
    .sort((a, b) => b.parts[0].value - a.parts[0].value);
  return part(
    "Why GPUs do not compute, in a mean step",
    bars(rows.filter((row) => row.parts[0].value > 0).slice(0, 20)),
    notes(all.notes),
  );
}

function overTime() {
  const all = table("overlap_over_time"),
    get = (row, name) => all.get(row, name) || 0;
  const devices = [...new Set(all.rows.map((row) => `${all.get(row, "process")}/${all.get(row, "device")}`))];
  return part(
    "Over time",
    legend([
      {name: "computing", color: "kernel"},
      {name: "copies alone", color: "copy"},
      {name: "communication alone", color: "communication"},
      {name: "idle", color: "other"},
    ]),
    devices.slice(0, 8).map((device) => {
      const rows = all.rows
        .filter(
          (row) => all.get(row, "index") !== null && `${all.get(row, "process")}/${all.get(row, "device")}` === device,
        )
        .slice(-600);
      return [
        devices.length > 1 && h("h3", `Process ${device.replace("/", ", GPU ")}`),
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
          rows.forEach((row, i) => {
            const whole = get(row, "measured") || get(row, "duration") || 1;
            const parts = [
              ["kernel", get(row, "compute")],
              ["copy", get(row, "copies") - get(row, "copies_beside_compute")],
              ["communication", get(row, "communication") - get(row, "communication_beside_compute")],
            ];
            const group = h("g.step", {tabindex: 0, role: "img", "aria-label": `step ${all.get(row, "index")}`});
            let from = 0;
            const wide = Math.max(chart.width / rows.length - 0.6, 0.5);
            for (const [kind, ns] of [...parts, ["other", whole]]) {
              const to = Math.min(100, from + (100 * Math.max(0, ns)) / whole);
              if (to > from)
                group.append(
                  h("rect." + kind, {
                    x: x(i),
                    width: wide,
                    y: y(to),
                    height: y(from) - y(to),
                    "fill-opacity": kind === "other" ? 0.35 : 1,
                  }),
                );
              from = to;
            }
            chart.inside.append(
              tip(group, () =>
                card(
                  `${all.get(row, "kind")} step ${all.get(row, "index")}`,
                  [
                    ["duration", time(get(row, "duration"))],
                    ["computing", percent(get(row, "compute_percent"))],
                    ["copies", time(get(row, "copies"))],
                    ["of them during compute", time(get(row, "copies_beside_compute"))],
                    ["communication", time(get(row, "communication"))],
                    ["idle", time(get(row, "idle"))],
                  ],
                  all.explanation("compute_percent"),
                ),
              ),
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
  missing: () =>
    missingTables(["devices", "gpu_idle", "overlap", "launches", "guided"], "This run used no GPU."),
  render(section) {
    add(section, [
      hasRows("devices") && devices(),
      hasRows("gpu_idle") && idle(),
      hasRows("overlap_over_time") && overTime(),
      part(
        "Tables",
        tablesOf(["devices", "gpu_idle", "launches", "overlap", "overlap_over_time", "guided"], {
          gpu_idle: {notes: false},
        }),
      ),
    ]);
  },
};
