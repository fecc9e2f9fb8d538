// What each layer costs: bars, an icicle of modules, the table.
import {get, namedBy, set} from "../address.js";
import {bars} from "../bars.js";
import {page, table} from "../data.js";
import {add, h, notes, replace, searchBox, segments, selectBox} from "../dom.js";
import {groups} from "../format.js";
import {boxOf, childOf, icicle} from "../icicle.js";
import {PARTS, barOfBlock, blocksOf, layerRows, legendOfLayers} from "../layer_rows.js";
import {card, partOf} from "../tip.js";
import {tableView} from "../table_view.js";
import {joined, namesOf, sum} from "./parts.js";

const ORDERS = [
  ["time", "Heaviest first"],
  ["forward", "Forward"],
  ["backward", "Backward"],
  ["program", "Program's order"],
  ["name", "Name"],
];

// Modules around the layers, by the parts of their names; below each layer the parts of its time.
function moduleTree(rows, title) {
  const root = boxOf(title);
  const hasModels = new Set(rows.map((row) => row.model).filter(Boolean)).size > 1;
  for (const row of rows) {
    if (!(row.total > 0)) continue;
    const isPath = row.isLayer && /^[\w./-]+$/.test(row.name) && !/\.py$/.test(row.name);
    const names = isPath ? row.name.split(row.name.includes("/") ? "/" : ".").filter(Boolean) : [row.name];
    let node = hasModels && row.model ? childOf(root, row.model) : root;
    for (const name of names.slice(0, -1)) node = childOf(node, name);
    const leaf = {...boxOf(joined([names[names.length - 1], row.type], " ")), row};
    for (const part of PARTS) if (row[part] > 0) leaf.children.push({...boxOf(part, part), own: row[part], row});
    node.children.push(leaf);
  }
  return root;
}

export const layersView = {
  id: "layers",
  title: "Layers",
  lead: "What each layer of the network costs in a mean step, forward and backward.",
  tables: ["layers"],
  none: "No layers were found in this run.",
  isWhole: true,
  render(section) {
    const layers = table("layers"),
      of = {gpu: layerRows(false), host: layerRows(true)},
      hasGpu = layers.has("gpu_time"),
      kinds = [...new Set(of.gpu.map((row) => row.step))];
    const state = {order: "time", find: "", kind: kinds[0], as: "bars", time: "gpu"};
    for (const key of Object.keys(state)) state[key] = get(key) ?? state[key];
    if (namedBy("row", layers).some((one) => /^\d/.test(one))) state.as = "table";
    const change = (key) => (value) => {
      state[key] = value;
      set(key, value);
      draw();
    };
    const box = h("div"),
      count = h("span.count");

    function chosen() {
      const words = state.find.split(/\s+/).filter(Boolean);
      const rows = (of[state.time] || of.gpu).filter(
        (row) =>
          row.step === state.kind &&
          words.every((word) => `${row.name} ${row.type} ${row.model} ${row.module}`.toLowerCase().includes(word)),
      );
      const by = {
        time: (a, b) => b.isLayer - a.isLayer || b.total - a.total,
        forward: (a, b) => b.forward - a.forward,
        backward: (a, b) => b.backward - a.backward,
        name: (a, b) => a.name.localeCompare(b.name),
        program: (a, b) => a.index - b.index,
      };
      return rows.sort(by[state.order]);
    }
    function tree(rows) {
      const made = icicle(moduleTree(rows, `mean ${page().answer.step_noun}`), {
        label: "Modules",
        content: (node, value, whole) =>
          node.row ? node.row.tip() : card(node.name, partOf(value, whole), "With everything below it."),
      });
      return [
        legendOfLayers(rows),
        made.element,
        h(
          "p.quiet",
          "As wide as the time, each layer with its parts below it. Click on a box to zoom in, on the first one to go back.",
        ),
      ];
    }
    function draw() {
      const found = chosen(),
        rows = found.filter((row) => row.total > 0),
        blocks = blocksOf(rows);
      if (state.order === "time") {
        const weight = (block) => sum(block.rows.map((row) => row.total));
        blocks.sort((a, b) => b.rows[0].isLayer - a.rows[0].isLayer || weight(b) - weight(a));
      }
      const without = found.length - rows.length;
      replace(
        count,
        `${groups(rows.length)} ${rows.length === 1 ? "row" : "rows"}${without > 0 ? `; ${groups(without)} without ${state.time === "host" || !hasGpu ? "time" : "GPU time"}` : ""}`,
      );
      if (state.as === "table") replace(box, tableView(layers, {bare: true, rows: found.map((row) => row.cells)}));
      else if (state.as === "icicle") replace(box, tree(rows));
      else replace(box, legendOfLayers(rows), bars(blocks.map(barOfBlock), {empty: "No layer has this name."}));
    }
    add(section, [
      h(
        "div.controls",
        segments("Show as", {bars: "Bars", icicle: "Modules", table: "Table"}, state.as, change("as")),
        hasGpu && segments("Time", {gpu: "GPU time", host: "Host time"}, state.time, change("time")),
        kinds.length > 1 && segments("Steps", namesOf(kinds), state.kind, change("kind")),
        h("label.field", "Order ", selectBox("Order", ORDERS, state.order, change("order"))),
        h("span.spacer"),
        count,
        searchBox("Search layers", change("find"), state.find),
      ),
      box,
      notes(layers.notes),
    ]);
    draw();
  },
};
