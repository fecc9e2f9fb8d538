// Rows of the table `layers` with what bars and icicles need.
import {get, isNamed} from "./address.js";
import {bars, legend} from "./bars.js";
import {table} from "./data.js";
import {percent, time} from "./format.js";
import {linksOfLayer} from "./links.js";
import {card} from "./tip.js";

export const PARTS = [
  {key: "forward", name: "forward", color: "forward"},
  {key: "backward", name: "backward", color: "backward"},
  {key: "update", name: "update", color: "update"},
  {key: "recompute", name: "recompute", color: "recompute"},
  {key: "other", name: "other", color: "other"},
];

// As analyzer/answer/layer_rows.cc: layers of one kind in repeated blocks have one name, "encoder.*.dense".
const LEAST_BLOCKS = 3;

function patternOf(name) {
  const [module, op] = name.split(/:(.*)/s);
  const parts = module.split(".").map((part) => part.replace(/^(|.*_)\d+$/, "$1*"));
  return parts.join(".") + (op === undefined ? "" : ":" + op.replace(/#[^#]*$/, ""));
}

// `rows` by their pattern, each group with a label, in the order of their first rows.
export function blocksOf(rows) {
  const groups = new Map(),
    types = new Map();
  for (const row of rows) {
    const model = row.model ? row.model + ": " : "",
      pattern = model + (row.name.startsWith("[") ? row.name : patternOf(row.name)),
      key = JSON.stringify([pattern, row.type]);
    if (!groups.has(key)) {
      groups.set(key, {pattern, type: row.type, rows: []});
      types.set(pattern, (types.get(pattern) || 0) + 1);
    }
    groups.get(key).rows.push(row);
  }
  const named = (name, type, always) => (type && (always || !/[a-z]/i.test(name)) ? `${name} (${type})` : name);
  return [...groups.values()].flatMap(({pattern, type, rows: of}) =>
    of.length < LEAST_BLOCKS
      ? of.map((row) => ({label: named((row.model ? row.model + ": " : "") + row.name, type), rows: [row]}))
      : [{label: named(pattern, type, types.get(pattern) > 1), rows: of}],
  );
}

// The time of the GPU or of the host, never both.
export function layerRows(isHost) {
  const layers = table("layers");
  if (!layers) return [];
  const prefix = layers.has("gpu_time") && !isHost ? "gpu_" : "";
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
          [prefix ? "GPU time" : "host time", time(row.total)],
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
      isTarget: isNamed("row", layers, cells),
      open: row.isLayer && (() => linksOfLayer(row.name)),
    });
    return row;
  });
}

// A group of blocksOf as a bar that opens.
export function barOfBlock({label, rows}) {
  const one = {...rows[0].bar(), isTarget: get("group") === label || rows.some((row) => row.bar().isTarget)};
  if (rows.length === 1) return one;
  const total = (key) => rows.reduce((sum, row) => sum + row[key], 0);
  return {
    ...one,
    name: `${label} ×${rows.length}`,
    note: "",
    tip: null,
    parts: PARTS.map((part) => ({value: total(part.key), color: part.color})),
    numbers: [time(total("total")), percent(total("percent"))],
    data: {group: label},
    open: () => bars(rows.map((row) => row.bar())),
  };
}

export const legendOfLayers = (rows) => legend(PARTS.filter((part) => rows.some((row) => row[part.key] > 0)));
