// Where on this page something is shown.
import {addressAt} from "./address.js";
import {page, table} from "./data.js";
import {h} from "./dom.js";

// The ids of the views of tables; others are shown alone.
export const viewOf = new Map();

// The address of a table, and of what `keys` (address.js) name in it; null: this page does not have it.
export function addressOf(name, keys = []) {
  const found = table(name);
  if (!found || found.rows.length === 0) return null;
  return addressAt(viewOf.get(name) || "table/" + name, keys);
}

// Of what the evidence names after its table: the values of columns that stand in it, if a row has them, and a column to sort by.
function keysOf(found, words) {
  const keys = [];
  const parts = words.split(/[,;"]|: /).map((part) => ` ${part.trim()} `);
  let rows = found.rows;
  found.columns.forEach((column, i) => {
    if (column.type !== "text") return;
    const values = [...new Set(rows.map((row) => row[i]))].filter(
      (value) => value && value.length > 2 && parts.some((part) => part.includes(` ${value} `)),
    );
    if (values.length === 0) return;
    rows = rows.filter((row) => values.includes(row[i]));
    keys.push(...values.map((value) => [`row.${found.name}`, `${column.name}=${value}`]));
  });
  const sorted = /\bcolumns? (\w+)/.exec(words);
  if (sorted && found.has(sorted[1])) keys.push([`sort.${found.name}`, "-" + sorted[1]]);
  return keys;
}

// "table gemm, column types" -> the address of the table gemm; `where`: the layer of the finding.
export function addressOfEvidence(evidence, where) {
  const found = /\btable (\w+)(.*)/s.exec(evidence || ""),
    of = found && table(found[1]);
  return of ? addressOf(of.name, keysOf(of, `${found[2]}; ${where || ""}`)) : null;
}

export const addressOfLayer = (name) => addressOf("layers", [["row.layers", "layer=" + name]]);

// Links to where else this layer, or this kernel, is.
export function linksOfLayer(name) {
  const only = (of, title) => {
    const found = table(of);
    if (!found || !found.rows.some((row) => found.get(row, "layer") === name)) return null;
    return h("a", {href: addressOf(of, [[`only.${of}`, "layer=" + name]])}, title);
  };
  return h("p.links", only("kernels", "Its kernels"), timelineOf("layer:" + name), only("work", "What it consists of"));
}
export const timelineOf = (words) =>
  page().timelines?.windows.length > 0 && h("a", {href: addressAt("timeline", [["find", words]])}, "On the timeline");
