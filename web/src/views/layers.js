// What each layer costs: bars, an icicle of modules, the table.
import {bars, segments} from "../bars.js";
import {hasRows, table} from "../data.js";
import {add, h, replace} from "../dom.js";
import {groups} from "../format.js";
import {layerRows, legendOfLayers} from "../layer_rows.js";
import {tableView} from "../table_view.js";

const ORDERS = [["time", "Heaviest first"], ["forward", "Forward"], ["backward", "Backward"], ["program", "Program's order"], ["name", "Name"]];

export const layersView = {
  id: "layers",
  title: "Layers",
  lead: "What each layer of the network costs in a mean step, forward and backward.",
  missing: () => (hasRows("layers") ? "" : "No layers were found in this run."),
  render(section) {
    const all = layerRows(), layers = table("layers");
    const kinds = [...new Set(all.map((row) => row.step))];
    const state = {order: "time", query: "", kind: kinds[0], as: "bars"};
    const box = h("div"), count = h("span.count");

    function chosen() {
      const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = all.filter((row) => row.step === state.kind && words.every((word) => `${row.name} ${row.type} ${row.model} ${row.module}`.toLowerCase().includes(word)));
      const by = {time: (a, b) => b.total - a.total, forward: (a, b) => b.forward - a.forward, backward: (a, b) => b.backward - a.backward, name: (a, b) => a.name.localeCompare(b.name), program: (a, b) => a.index - b.index};
      return rows.sort(by[state.order]);
    }
    function draw() {
      const rows = chosen();
      replace(count, `${groups(rows.length)} of ${groups(all.filter((row) => row.step === state.kind).length)} rows`);
      if (state.as === "table") replace(box, tableView(layers, {bare: true, rows: rows.map((row) => row.cells)}));
      else replace(box, legendOfLayers(rows), bars(rows.map((row) => row.bar()), {empty: "No layer has this name."}));
    }
    add(section, [
      h("div.controls", null,
        segments("Show as", [["bars", "Bars"], ["table", "Table"]], state.as, (value) => { state.as = value; draw(); }),
        kinds.length > 1 && segments("Steps", kinds.map((kind) => [kind, kind]), state.kind, (value) => { state.kind = value; draw(); }),
        h("label.field", null, "Order ", h("select", {onchange: (event) => { state.order = event.target.value; draw(); }}, ORDERS.map(([value, text]) => h("option", {value}, text)))),
        h("span.spacer"), count,
        h("input", {type: "search", placeholder: "Search layers", "aria-label": "Search layers", oninput: (event) => { state.query = event.target.value; draw(); }})),
      box,
      h("ul.notes", null, layers.notes.map((note) => h("li", null, note))),
    ]);
    draw();
  },
};
