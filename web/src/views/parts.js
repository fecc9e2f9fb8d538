// What several views are made of.
import {hasRows, table} from "../data.js";
import {h} from "../dom.js";
import {tableView} from "../table_view.js";

export const part = (title, ...contents) => h("section", h("h2", title), contents);

// These tables, as far as they have rows.
export const tablesOf = (names, options = {}) =>
  names.filter(hasRows).map((name) => tableView(table(name), options[name] || {}));

// "" if one of the tables has rows, else why not: the first one's note, or `sentence`.
export function missingTables(names, sentence) {
  if (names.some(hasRows)) return "";
  const note = names.map(table).find((one) => one && one.notes.length > 0);
  const why = note?.notes[0] || sentence;
  return why.startsWith(sentence) ? why : `${sentence} ${why}`;
}

// The texts of a finding: its rule, where it is, what it says, what to do.
export const saysOfFinding = (rule, where, sentence, advice) => [
  h("h3", h("code", rule), where && h("span.where", where)),
  h("p", sentence),
  advice && h("p.advice", h("span.arrow", {"aria-hidden": "true"}, "→ "), advice),
];

// Of a part of a step, or of what it does in the table `accounting`.
export const isCommunication = (name) => /^(communication|(gloo|nccl|ucc|mpi):)/.test(name);

export const sum = (numbers) => numbers.reduce((total, number) => total + (number || 0), 0);

export function quantile(sorted, part) {
  if (sorted.length === 0) return 0;
  const at = (sorted.length - 1) * part,
    low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}
