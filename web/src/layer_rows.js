// Rows of the table `layers` with what bars and icicles need.
import {legend} from "./bars.js";
import {table} from "./data.js";
import {percent, time} from "./format.js";
import {card} from "./tip.js";

export const PARTS = [
  {key: "forward", name: "forward", color: "forward"},
  {key: "backward", name: "backward", color: "backward"},
  {key: "update", name: "update", color: "update"},
  {key: "recompute", name: "recompute", color: "recompute"},
  {key: "other", name: "other", color: "other"},
];

// By GPU time where the run has it.
export function layerRows() {
  const layers = table("layers");
  if (!layers) return [];
  const prefix = layers.has("gpu_time") ? "gpu_" : "";
  return layers.rows.map((cells, index) => {
    const number = (name) => layers.get(cells, prefix + name) || 0;
    const row = {
      cells,
      index,
      name: layers.get(cells, "layer") || "",
      model: layers.get(cells, "model") || "",
      step: layers.get(cells, "step") || "",
      type: layers.get(cells, "type") || "",
      module: layers.get(cells, "module") || "",
      total: number("time"),
      percent: layers.get(cells, prefix ? "gpu_percent" : "time_percent"),
      forward: number("forward"),
      backward: number("backward"),
      update: number("update"),
      recompute: number("recompute"),
    };
    row.isLayer = row.name !== "" && !row.name.includes("[");
    row.other = Math.max(0, row.total - row.forward - row.backward - row.update - row.recompute);
    row.tip = () =>
      card(
        row.model ? `${row.model}: ${row.name}` : row.name,
        [
          ...PARTS.map((part) => [part.name, row[part.key] > 0 ? time(row[part.key]) : null]),
          [prefix ? "GPU time" : "time", time(row.total)],
          ["of the step", percent(row.percent)],
          ["type", row.type],
          [
            "rate",
            layers.get(cells, prefix + "rate") === null
              ? null
              : `${layers.get(cells, prefix + "rate").toPrecision(3)} GFLOP/s`,
          ],
          ["line", layers.get(cells, "line")],
          ["matched by", layers.get(cells, "matched_by")],
        ],
        layers.explanation(prefix + "time"),
      );
    row.bar = () => ({
      name: row.name || "–",
      note: [row.model, row.type].filter(Boolean).join(" · "),
      quiet: !row.isLayer,
      tip: row.tip,
      parts: PARTS.map((part) => ({value: row[part.key], color: part.color})),
      numbers: [time(row.total), percent(row.percent)],
      data: {layer: row.name, value: row.total},
    });
    return row;
  });
}

export const legendOfLayers = (rows) => legend(PARTS.filter((part) => rows.some((row) => row[part.key] > 0)));
