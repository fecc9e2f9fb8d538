// The run that this page shows: tables as `dlhook report --format json` has them, and what only the page has.
import {amount} from "./format.js";

let all = null;
const known = new Map();

// Not amounts: without spaces between thousands.
export const NUMBERS_OF = new Set(["process", "pid", "index", "rank", "communicator", "device"]);

export class Table {
  constructor(json) {
    Object.assign(this, json);
    this.index = new Map(json.columns.map((column, i) => [column.name, i]));
  }
  // Its rows by the names of columns; `cells`: the row itself.
  get objects() {
    this.made ||= this.rows.map((cells) => ({...Object.fromEntries(this.columns.map(({name}, i) => [name, cells[i]])), cells}));
    return this.made;
  }
  has(name) {
    return this.index.has(name);
  }
  column(name) {
    return this.columns[this.index.get(name)];
  }
  get(row, name) {
    const i = this.index.get(name);
    return i === undefined ? null : row[i];
  }
  // What people read of one of `objects`; null: nothing is known.
  text(one, name) {
    const value = one[name] ?? "",
      column = this.column(name);
    if (value === "") return null;
    return NUMBERS_OF.has(name) ? String(value) : amount(value, column?.unit, column?.type);
  }
  // {label: column} as facts() takes it.
  pairs(one, names) {
    return Object.entries(names).map(([label, name]) => [label, this.text(one, name)]);
  }
  // Whether any row has something in this column.
  isKnown(name) {
    return this.has(name) && this.rows.some((row) => this.get(row, name) !== null && this.get(row, name) !== "");
  }
  explanation(name) {
    return this.column(name)?.explanation || "";
  }
}

export async function load() {
  const text = document.getElementById("data").textContent.trim();
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  all = JSON.parse(await new Response(stream).text());
  for (const json of all.report.tables) known.set(json.name, new Table(json));
}

// The table of this name; null if the page has none.
export const table = (name) => known.get(name) || null;
export const tables = () => [...known.values()];
export const hasRows = (name) => known.has(name) && known.get(name).rows.length > 0;
export const run = () => all.report.run;
export const page = () => all.page;
export const report = () => all.report;

// The rank of a process; null: it has none.
export function rankOf(pid) {
  const one = (run()?.processes || []).find((process) => process.pid === pid),
    name = Object.keys(one?.rank_variables || {}).find((key) => /^(RANK|.*WORLD_RANK|PMI_RANK|SLURM_PROCID)$/.test(key));
  return name ? Number(one.rank_variables[name]) : null;
}
// "rank 0, process 4711"
export const processName = (pid) => `${rankOf(pid) === null ? "" : `rank ${rankOf(pid)}, `}process ${pid}`;
