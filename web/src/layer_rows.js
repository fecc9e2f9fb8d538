// Rows of the table `layers` with what bars and icicles need.
import {get, isNamed} from "./address.js";
import {bars, legend} from "./bars.js";
import {table} from "./data.js";
import {percent, time} from "./format.js";
import {linksOfLayer} from "./links.js";
import {card} from "./tip.js";
import {joined, sum} from "./views/parts.js";

// Of a layer's time: names, and colors.
export const PARTS = ["forward", "backward", "update", "recompute", "other"];
export const partsOf = (row) => PARTS.map((part) => ({value: row[part] || 0, color: part}));

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
  return layers.objects.map((one, index) => {
    const row = {
      cells: one.cells,
      index,
      total: one[prefix + "time"] || 0,
      percent: one[prefix ? "gpu_percent" : "time_percent"],
    };
    for (const column of ["model", "step", "type", "module"]) row[column] = one[column] || "";
    for (const part of PARTS) row[part] = one[prefix + part] || 0;
    row.name = one.layer || "";
    row.isLayer = row.name !== "" && !row.name.includes("[");
    row.other = Math.max(0, row.total - row.forward - row.backward - row.update - row.recompute);
    row.tip = () =>
      card(
        row.model ? `${row.model}: ${row.name}` : row.name,
        [
          ...PARTS.map((part) => [part, row[part] > 0 && time(row[part])]),
          [prefix ? "GPU time" : "host time", time(row.total)],
          ["of the step", percent(row.percent)],
          ...layers.pairs(one, {type: "type", rate: prefix + "rate", line: "line", "matched by": "matched_by"}),
        ],
        layers.explanation(prefix + "time"),
      );
    row.bar = () => ({
      name: row.name || "–",
      note: joined([row.model, row.type], " · "),
      quiet: !row.isLayer,
      tip: row.tip,
      parts: partsOf(row),
      numbers: [time(row.total), percent(row.percent)],
      data: {layer: row.name, value: row.total},
      isTarget: isNamed("row", layers, one.cells),
      open: row.isLayer && (() => linksOfLayer(row.name)),
    });
    return row;
  });
}

// A group of blocksOf as a bar that opens.
export function barOfBlock({label, rows}) {
  const one = {...rows[0].bar(), isTarget: get("group") === label || rows.some((row) => row.bar().isTarget)};
  if (rows.length === 1) return one;
  const total = (key) => sum(rows.map((row) => row[key]));
  return {
    ...one,
    name: `${label} ×${rows.length}`,
    note: "",
    tip: null,
    parts: PARTS.map((part) => ({value: total(part), color: part})),
    numbers: [time(total("total")), percent(total("percent"))],
    data: {group: label},
    open: () => bars(rows.map((row) => row.bar())),
  };
}

export const legendOfLayers = (rows) =>
  legend(PARTS.map((part) => rows.some((row) => row[part] > 0) && [part, part]));
