// Two sides, row by row: what changed first, then what changed no more than noise.
import {legend, segments} from "../bars.js";
import {report, table, tables} from "../data.js";
import {add, facts, h, moreButton, notes, replace, searchBox, tickBox} from "../dom.js";
import {groups, percent, time} from "../format.js";
import {tableView} from "../table_view.js";
import {card, tip} from "../tip.js";
import {part, saysOfFinding, tablesOf} from "./parts.js";

const STEP = 60;
const OF_ALL = new Set(["verdict", "causes", "differences", "findings"]);
const TITLES = {gemm: "Matrix products", gpu_idle: "GPU idle"};
const QUIET = new Set(["noise", "equal"]);
const UNKNOWN = "unknown";

const signed = (ns) => (ns === null ? "–" : (ns > 0 ? "+" : ns < 0 ? "−" : "") + time(Math.abs(ns)));
const signedPercent = (value) =>
  value === null ? "" : (value > 0 ? "+" : value < 0 ? "−" : "") + percent(Math.abs(value));

function nameOf(one, row) {
  const texts = one.columns
    .filter((column, i) => column.type === "text" && !["verdict", "why", "model"].includes(column.name) && row[i])
    .map((column) => one.get(row, column.name));
  return texts.length > 0 ? [texts[0], texts.slice(1).join(" · ")] : ["–", ""];
}

// What the libraries chose differs, whatever it costs.
const choice = (one, row) => (/^(chosen|formats): .* -> /.test(one.get(row, "why") || "") ? one.get(row, "why") : "");
const isChanged = (one, row) => !QUIET.has(one.get(row, "verdict")) || choice(one, row) !== "";

function changedSentence(one) {
  const count = (is) => one.rows.filter(is).length;
  const isQuiet = (row) => QUIET.has(one.get(row, "verdict"));
  const unknown = count((row) => one.get(row, "verdict") === UNKNOWN),
    chosen = count((row) => isQuiet(row) && isChanged(one, row));
  return (
    `${groups(count((row) => !isQuiet(row)) - unknown)} of ${groups(one.rows.length)} rows changed by more than noise` +
    (chosen > 0 ? `; of ${groups(chosen)} others something else was chosen` : "") +
    (unknown > 0 ? `; of ${groups(unknown)} it is not known` : "")
  );
}

// BASE above NEW, and what the change is.
function pairRow(one, row, most) {
  const get = (name) => one.get(row, name);
  const [name, of] = nameOf(one, row),
    note = [of, choice(one, row)].filter(Boolean).join(" · "),
    verdict = get("verdict") || "";
  const bar = (value, color) =>
    h("span.bar", value > 0 && h("span." + color, {style: {width: `${(100 * value) / most}%`}}));
  const isWorse = (get("change") || 0) > 0,
    isQuiet = QUIET.has(verdict);
  const line = h(
    "div.pair-row",
    {tabindex: 0, role: "listitem", "data-value": get("change")},
    h("div.pair-name", h("bdi", name), note && h("span.bar-note", note)),
    h(
      "div.pair-bars",
      {"aria-hidden": "true"},
      bar(get("base") || 0, "other"),
      bar(get("new") || 0, isQuiet ? "framework" : isWorse ? "backward" : "forward"),
    ),
    h(
      "div.pair-numbers",
      h("strong.number" + (isQuiet ? ".quiet" : isWorse ? ".worse" : ".better"), signed(get("change"))),
      h("span.number.quiet", signedPercent(get("percent"))),
    ),
    h("div", h("span.chip" + (isQuiet || verdict === UNKNOWN ? "" : isWorse ? ".warn" : ".fine"), verdict || "–")),
  );
  return tip(line, () =>
    card(
      name,
      [
        ["BASE", get("base") === null ? null : time(get("base"))],
        ["NEW", get("new") === null ? null : time(get("new"))],
        ["change", `${signed(get("change"))} ${signedPercent(get("percent"))}`],
        ["noise up to", get("noise") === null ? null : time(get("noise"))],
        ["verdict", verdict],
        ["why", get("why")],
        ["", note],
      ],
      one.explanation("change"),
    ),
  );
}

function pairs(one, isOrdered) {
  const state = {all: false, query: ""},
    list = h("div.pairs", {role: "list"}),
    count = h("span.count"),
    more = h("div.more");
  let shown = STEP;
  const changed = one.rows.filter((row) => isChanged(one, row));
  const sorted = (rows) =>
    isOrdered
      ? rows
      : [...rows].sort((a, b) => Math.abs(one.get(b, "change") || 0) - Math.abs(one.get(a, "change") || 0));
  function draw() {
    const words = state.query;
    const quiet = one.rows.filter((row) => !isChanged(one, row));
    const rows = [...sorted(changed), ...(state.all || changed.length === 0 ? sorted(quiet) : [])].filter((row) =>
      row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(words)),
    );
    const most = Math.max(1, ...rows.flatMap((row) => [one.get(row, "base") || 0, one.get(row, "new") || 0]));
    replace(
      list,
      rows.slice(0, shown).map((row) => pairRow(one, row, most)),
    );
    replace(count, changedSentence(one));
    replace(
      more,
      moreButton(rows.length - shown, 10 * STEP, () => {
        shown += 10 * STEP;
        draw();
      }),
    );
  }
  draw();
  return [
    legend([
      {name: "BASE", color: "other"},
      {name: "NEW, faster", color: "forward"},
      {name: "NEW, slower", color: "backward"},
      {name: "NEW, within noise", color: "framework"},
    ]),
    h(
      "div.controls",
      count,
      h("span.spacer"),
      changed.length > 0 &&
        changed.length < one.rows.length &&
        tickBox("All rows", (isTicked) => {
          state.all = isTicked;
          draw();
        }),
      searchBox("Search rows", (query) => {
        state.query = query;
        draw();
      }),
    ),
    list,
    more,
  ];
}

function causes(one) {
  const most = Math.max(1, ...one.rows.map((row) => Math.abs(one.get(row, "change") || 0)));
  return part(
    one.title,
    h(
      "div.causes",
      {role: "list"},
      one.rows.map((row) => {
        const get = (name) => one.get(row, name),
          change = get("change") || 0;
        const width = `${(50 * Math.abs(change)) / most}%`;
        const bar = h("span." + (change > 0 ? "backward" : "forward"), {
          style: {width, [change > 0 ? "left" : "right"]: "50%"},
        });
        const line = h(
          "div.cause",
          {tabindex: 0, role: "listitem", "data-value": get("change")},
          h(
            "div.cause-name",
            h("bdi", get("cause")),
            h("span.bar-note", [get("what"), get("where")].filter(Boolean).join(", ")),
          ),
          h("div.cause-bar", {"aria-hidden": "true"}, bar),
          h("span.number", signed(get("change"))),
          h("span.number.quiet", percent(Math.abs(get("percent") || 0))),
        );
        return tip(line, () =>
          card(
            get("cause"),
            [
              ["change", signed(get("change"))],
              ["of all changes", percent(Math.abs(get("percent") || 0))],
              ["what", get("what")],
              ["where", get("where")],
            ],
            one.explanation("cause"),
          ),
        );
      }),
    ),
    h("p.quiet.cause-axis", h("span", "← faster"), h("span", "slower →")),
  );
}

const findingsOf = (one) =>
  part(
    one.title,
    one.rows.map((row) =>
      h(
        one.get(row, "change") === "gone" ? "article.finding.gone" : "article.finding",
        {"data-rule": one.get(row, "rule")},
        h("div.gain", h("strong", time(one.get(row, "gain"))), h("span", one.get(row, "change"))),
        h(
          "div.what",
          saysOfFinding(
            one.get(row, "rule"),
            one.get(row, "where"),
            one.get(row, "finding"),
            one.get(row, "change") !== "gone" && one.get(row, "advice"),
          ),
        ),
      ),
    ),
  );

export const verdictView = {
  id: "verdict",
  title: "Verdict",
  missing: () => (table("verdict") ? "" : "There is no verdict."),
  render(section) {
    const verdict = table("verdict"),
      step = verdict.rows[0],
      change = step ? verdict.get(step, "change") : null;
    const isQuiet = step ? QUIET.has(verdict.get(step, "verdict")) : verdict.title.startsWith("no difference");
    const noise = step && isQuiet ? (100 * verdict.get(step, "noise")) / verdict.get(step, "base") : 0;
    const quietest = ["causes", "differences", "findings"].map(table);
    add(section, [
      report().environment && h("p.lead", "Environment: ", report().environment),
      h(
        "div.hero",
        isQuiet
          ? h("div.hero-number", "no difference", noise > 0 && h("small", `within ±${percent(noise)}`))
          : step &&
              h(
                "div.hero-number" +
                  (verdict.get(step, "verdict") === UNKNOWN || !change ? "" : change > 0 ? ".worse" : ".better"),
                {"data-value": change},
                signed(change),
              ),
        h("p", verdict.title),
      ),
      verdict.rows.length > 0 && pairs(verdict, true),
      notes(verdict.notes),
      quietest[0] && quietest[0].rows.length > 0 && causes(quietest[0]),
      tablesOf(["differences"]),
      quietest[2] && quietest[2].rows.length > 0 && findingsOf(quietest[2]),
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
          h(
            "div.controls",
            segments(
              "Show as",
              [
                ["bars", "Bars"],
                ["table", "Table"],
              ],
              "bars",
              draw,
            ),
          ),
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
    const side = (title, runs) =>
      part(
        title,
        h(
          "div.cards.wide",
          runs.filter(Boolean).flatMap((one) =>
            one.processes.slice(0, 30).map((process) =>
              h(
                "div.card",
                h("strong", one.name),
                facts([
                  ["program", process.script || process.program],
                  ["process", process.pid],
                  ["host", process.host],
                  ["ran", time(process.end_ns - process.start_ns)],
                  ["ended", process.end],
                  ["by dlhook", process.tool_version],
                ]),
              ),
            ),
          ),
        ),
      );
    add(section, [
      side("BASE", [report().base, ...(report().more_bases || [])]),
      side("NEW", [report().run, ...(report().more_runs || [])]),
    ]);
  },
};
