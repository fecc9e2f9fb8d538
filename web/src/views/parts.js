// What several views are made of.
import {isNamed} from "../address.js";
import {hasRows, table} from "../data.js";
import {facts, h, notes} from "../dom.js";
import {time} from "../format.js";
import {tableView} from "../table_view.js";
import {rowCard} from "../tip.js";

export const part = (title, ...contents) => h("section", h("h2", title), contents);

// These tables, as far as they have rows. The notes of `notesOf` are shown elsewhere.
export const tablesOf = (names, notesOf) =>
  names.filter(hasRows).map((name) => tableView(table(name), {notes: name !== notesOf}));

// Below a view: the notes that it shows, its tables.
export const below = ({tables, notesOf}) => [
  notesOf && notes(table(notesOf)?.notes || []),
  tables.some(hasRows) && part(tables.length === 1 ? "Table" : "Tables", tablesOf(tables, notesOf)),
];

// "" if one of the view's tables has rows, else why not: the first one's note, or the view's own sentence.
export function whyMissing({missing, tables, none}) {
  if (missing) return missing();
  if (!none || tables.some(hasRows)) return "";
  const why = tables.map(table).find((one) => one?.notes.length > 0)?.notes[0] || none;
  return why.startsWith(none) ? why : `${none} ${why}`;
}

// A bar for one of a table's `objects`, as long as `column` says; `numbers` are columns or texts, `pairs` of its tooltip {label: column}.
export const barOf = (of, one, {name, column, color, numbers, title, pairs, explained, ...more}) => ({
  name,
  parts: [{value: one[column] || 0, color}],
  numbers: numbers.map((number) => (of.has(number) ? (of.text(one, number) ?? "–") : number)),
  data: {value: one[column]},
  isTarget: isNamed("row", of, one.cells),
  tip: () => rowCard(of, one, title || name, pairs, explained || column),
  ...more,
});

const MOST_PROCESSES = 60;

// What a run's processes were.
export const processCards = ({name, processes}) => [
  ...processes.slice(0, MOST_PROCESSES).map((one) =>
    h(
      "div.card",
      h("strong", one.script || one.program),
      facts([
        ["run", name],
        ["process", one.pid],
        ["program", one.program],
        ["host", one.host],
        ["ran", time(one.end_ns - one.start_ns)],
        ["ended", one.end],
        ["rank", joined(Object.entries(one.rank_variables || {}).map((pair) => pair.join("=")), " ")],
        ["recorded", one.capture_families.split(",").join(", ")],
        ["by dlhook", one.tool_version],
        ["trace", one.file],
      ]),
    ),
  ),
  processes.length > MOST_PROCESSES && h("p.quiet", `The first ${MOST_PROCESSES} are shown.`),
];

// The texts of a finding: its rule, where it is, what it says, what to do.
export const saysOfFinding = (rule, where, sentence, advice) => [
  h("h3", h("code", rule), where && h("span.where", where)),
  h("p", sentence),
  advice && h("p.advice", h("span.arrow", {"aria-hidden": "true"}, "→ "), advice),
];

// Of a part of a step, or of what it does in the table `accounting`.
export const isCommunication = (name) => /^(communication|(gloo|nccl|ucc|mpi):)/.test(name);

// The texts that are known, one after the other.
export const joined = (texts, by = ", ") => texts.filter(Boolean).join(by);

// For segments(): what is shown as it is called.
export const namesOf = (values) => Object.fromEntries(values.map((value) => [value, value]));

export const sum = (numbers) => numbers.reduce((total, number) => total + (number || 0), 0);

export function quantile(sorted, part) {
  if (sorted.length === 0) return 0;
  const at = (sorted.length - 1) * part,
    low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}
