// Two sides, row by row: what changed first, then what changed no more than noise.
import {bars, legend} from "../bars.js";
import {hasRows, report, table, tables} from "../data.js";
import {add, h, notes, replace, searchBox, segments, tickBox} from "../dom.js";
import {groups, percent, time} from "../format.js";
import {tableView} from "../table_view.js";
import {card} from "../tip.js";
import {joined, part, processCards, saysOfFinding, tablesOf} from "./parts.js";

const OF_ALL = new Set(["verdict", "causes", "differences", "findings"]);
const TITLES = {gemm: "Matrix products", gpu_idle: "GPU idle"};
const QUIET = new Set(["noise", "equal"]);
const UNKNOWN = "unknown";

const withSign = (value, text) => (value > 0 ? "+" : value < 0 ? "−" : "") + text(Math.abs(value));
const signed = (ns) => (ns === null ? "–" : withSign(ns, time));
const signedPercent = (value) => (value === null ? "" : withSign(value, percent));

function nameOf(one, row) {
  const isName = (column) => column.type === "text" && !["verdict", "why", "model"].includes(column.name);
  const [name, ...rest] = one.columns.filter(isName).map((column) => row[column.name]).filter(Boolean);
  return [name || "–", rest.join(" · ")];
}

// What the libraries chose differs, whatever it costs.
const choice = (row) => (/^(chosen|formats): .* -> /.test(row.why || "") ? row.why : "");
const isQuiet = (row) => QUIET.has(row.verdict);
const isChanged = (row) => !isQuiet(row) || choice(row) !== "";

function changedSentence(one) {
  const count = (is) => one.objects.filter(is).length;
  const unknown = count((row) => row.verdict === UNKNOWN),
    chosen = count((row) => isQuiet(row) && isChanged(row));
  return (
    `${groups(count((row) => !isQuiet(row)) - unknown)} of ${groups(one.rows.length)} rows changed by more than noise` +
    (chosen > 0 ? `; of ${groups(chosen)} others something else was chosen` : "") +
    (unknown > 0 ? `; of ${groups(unknown)} it is not known` : "")
  );
}

// BASE above NEW, and what the change is.
function pairRow(one, row) {
  const [name, of] = nameOf(one, row),
    note = joined([of, choice(row)], " · "),
    verdict = row.verdict || "–",
    isWorse = row.change > 0,
    mark = isQuiet(row) ? "quiet" : isWorse ? "worse" : "better",
    chip = mark === "quiet" || verdict === UNKNOWN ? "" : isWorse ? ".warn" : ".fine";
  return {
    name,
    note,
    parts: [{value: row.base, color: "other"}],
    second: [{value: row.new, color: {quiet: "framework", worse: "backward", better: "forward"}[mark]}],
    numbers: [
      [h("strong." + mark, signed(row.change)), h("small.quiet", signedPercent(row.percent))],
      h("span.chip" + chip, verdict),
    ],
    data: {value: row.change},
    tip: () =>
      card(
        name,
        [
          ...one.pairs(row, {BASE: "base", NEW: "new"}),
          ["change", `${signed(row.change)} ${signedPercent(row.percent)}`],
          ...one.pairs(row, {"noise up to": "noise", verdict: "verdict", why: "why"}),
          ["", note],
        ],
        one.explanation("change"),
      ),
  };
}

function pairs(one, isOrdered) {
  const state = {all: false, query: ""},
    list = h("div");
  const changed = one.objects.filter(isChanged),
    quiet = one.objects.filter((row) => !isChanged(row));
  const sorted = (rows) => (isOrdered ? rows : [...rows].sort((a, b) => Math.abs(b.change) - Math.abs(a.change)));
  function draw() {
    const rows = [...sorted(changed), ...(state.all || changed.length === 0 ? sorted(quiet) : [])].filter((row) =>
      row.cells.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(state.query)),
    );
    replace(list, bars(rows.map((row) => pairRow(one, row))));
  }
  const change = (key) => (value) => {
    state[key] = value;
    draw();
  };
  draw();
  return [
    legend({BASE: "other", "NEW, faster": "forward", "NEW, slower": "backward", "NEW, within noise": "framework"}),
    h(
      "div.controls",
      h("span.count", changedSentence(one)),
      h("span.spacer"),
      changed.length > 0 && quiet.length > 0 && tickBox("All rows", change("all")),
      searchBox("Search rows", change("query")),
    ),
    list,
  ];
}

const causes = (one) =>
  part(
    one.title,
    legend({faster: "forward", slower: "backward"}),
    bars(
      one.objects.map((row) => ({
        name: row.cause,
        note: joined([row.what, row.where]),
        parts: [{value: Math.abs(row.change), color: row.change > 0 ? "backward" : "forward"}],
        numbers: [signed(row.change), percent(Math.abs(row.percent))],
        data: {value: row.change},
        tip: () =>
          card(
            row.cause,
            [
              ["change", signed(row.change)],
              ["of all changes", percent(Math.abs(row.percent))],
              ["what", row.what],
              ["where", row.where],
            ],
            one.explanation("cause"),
          ),
      })),
    ),
  );

const findingsOf = (one) =>
  part(
    one.title,
    one.objects.map(({change, gain, rule, where, finding, advice}) =>
      h(
        change === "gone" ? "article.finding.gone" : "article.finding",
        {"data-rule": rule},
        h("div.gain", h("strong", time(gain)), h("span", change)),
        h("div.what", saysOfFinding(rule, where, finding, change !== "gone" && advice)),
      ),
    ),
  );

export const verdictView = {
  id: "verdict",
  title: "Verdict",
  missing: () => (table("verdict") ? "" : "There is no verdict."),
  render(section) {
    const verdict = table("verdict"),
      step = verdict.objects[0];
    const isSame = step ? isQuiet(step) : verdict.title.startsWith("no difference");
    const noise = step && isSame ? (100 * step.noise) / step.base : 0;
    const mark = step?.verdict === UNKNOWN || !step?.change ? "" : step.change > 0 ? ".worse" : ".better";
    add(section, [
      report().environment && h("p.lead", "Environment: ", report().environment),
      h(
        "div.hero",
        isSame
          ? h("div.hero-number", "no difference", noise > 0 && h("small", `within ±${percent(noise)}`))
          : step && h("div.hero-number" + mark, {"data-value": step.change}, signed(step.change)),
        h("p", verdict.title),
      ),
      verdict.rows.length > 0 && pairs(verdict, true),
      notes(verdict.notes),
      hasRows("causes") && causes(table("causes")),
      tablesOf(["differences"]),
      hasRows("findings") && findingsOf(table("findings")),
      part(
        "Tables",
        tables()
          .filter((one) => !OF_ALL.has(one.name) && one.rows.length > 0)
          .map((one) =>
            h(
              "p",
              h("a", {href: "#" + one.name}, one.name),
              h("span.quiet", ` ${one.title}: ${changedSentence(one)}`),
            ),
          ),
      ),
    ]);
  },
};

// A view for each table that was compared.
export const comparedViews = () =>
  tables()
    .filter((one) => !OF_ALL.has(one.name))
    .map((one) => ({
      id: one.name,
      title: TITLES[one.name] || one.name[0].toUpperCase() + one.name.slice(1).replace(/_/g, " "),
      lead: one.title,
      missing: () => (one.rows.length > 0 ? "" : "Neither run has rows in this table."),
      render(section) {
        const state = h("div");
        const draw = (as) => replace(state, as === "table" ? tableView(one, {bare: true}) : pairs(one));
        add(section, [
          h("div.controls", segments("Show as", {bars: "Bars", table: "Table"}, "bars", draw)),
          state,
          notes(one.notes),
        ]);
        draw("bars");
      },
    }));

export const sidesView = {
  id: "sides",
  title: "Environment",
  lead: "The runs of both sides.",
  missing: () => (report().run ? "" : "The table does not belong to a single run."),
  render(section) {
    const side = (title, runs) => part(title, h("div.cards.wide", runs.filter(Boolean).map(processCards)));
    add(section, [
      side("BASE", [report().base, ...(report().more_bases || [])]),
      side("NEW", [report().run, ...(report().more_runs || [])]),
    ]);
  },
};
