// What ran, where a step's time goes, what could be faster: the screen of `dlhook report RUN`.
import {addressAt} from "../address.js";
import {bars, legend} from "../bars.js";
import {hasRows, page, table} from "../data.js";
import {add, h, notes} from "../dom.js";
import {percent, time} from "../format.js";
import {PARTS} from "../layer_rows.js";
import {addressOf, addressOfEvidence} from "../links.js";
import {card, tip} from "../tip.js";
import {isCommunication, saysOfFinding} from "./parts.js";

// By the kind of a part of a step (PartKind in analyzer/answer/step_parts.h).
const COLORS = {
  library: "library",
  framework: "framework",
  python: "python",
  native: "library",
  between_calls: "python",
  input: "input",
  gpu_wait: "waiting",
  blocked: "waiting",
  runnable: "waiting",
};

// The row of the table `accounting` with this part, or all of them.
function addressOfPart(name) {
  const accounting = table("accounting"),
    what = name.replace(/ \(.*\)$/, ""),
    row = accounting && accounting.rows.find((one) => [what, "aten::" + what].includes(accounting.get(one, "what")));
  return addressOf("accounting", row ? [["row.accounting", "what=" + accounting.get(row, "what")]] : []);
}

function parts(answer) {
  const rows = answer.parts.map((part) => ({
    name: part.name,
    href: hasRows("accounting") ? addressOfPart(part.name) : null,
    parts: [{value: part.ns, color: isCommunication(part.name) ? "communication" : COLORS[part.kind] || "other"}],
    numbers: [time(part.ns), part.percent + " %"],
    data: {part: part.name, kind: part.kind, value: part.ns},
    tip: () =>
      card(
        part.name,
        [
          ["of a mean " + answer.step_noun, time(part.ns)],
          ["share", part.percent + " %"],
        ],
        "Wall share: each instant is divided equally among the activities in it, so the parts add up to the step.",
      ),
  }));
  return h(
    "section",
    h("h2", `Where a ${answer.step_noun} goes`),
    time(answer.mean_ns) !== time(answer.step_ns) &&
      h("p.quiet", `Of those whose operations were recorded: ${time(answer.step_ns)} on average.`),
    bars(rows, {most: answer.step_ns}),
    answer.step_remarks.map((remark) => h("p.quiet", remark)),
  );
}

function finding(findings, row) {
  const get = (name) => findings.get(row, name);
  const explain = (element, name) => tip(element, () => card(name.replace(/_/g, " "), [], findings.explanation(name)));
  const lead = get("basis") === "measured" ? "" : get("basis") === "computed" ? "about " : "up to ";
  const href = addressOfEvidence(get("evidence"), get("where"));
  const where = [get("where"), get("line")].filter(
    (text, i, all) => text && (i === 0 || !String(all[0] || "").includes(text)),
  );
  return h(
    get("kind") === "information" ? "article.finding.information" : "article.finding",
    {id: "finding-" + get("rule"), "data-rule": get("rule")},
    h(
      "div.gain",
      ...(get("gain") === null
        ? [explain(h("strong", {tabindex: 0}, "memory"), "gain")]
        : [
            explain(h("strong", {tabindex: 0, "data-value": get("gain")}, lead, time(get("gain"))), "gain"),
            explain(
              h("span", {"data-value": get("gain_percent")}, percent(get("gain_percent")), " of " + get("percent_of")),
              "gain_percent",
            ),
          ]),
    ),
    h(
      "div.what",
      saysOfFinding(get("rule"), where.join(", "), get("finding"), get("advice")),
      h(
        "p.chips",
        explain(h("span.chip", {tabindex: 0}, get("basis")), "basis"),
        explain(h("span.chip", {tabindex: 0}, `confidence ${get("confidence")}`), "confidence"),
        get("numerics") && explain(h("span.chip.warn", {tabindex: 0}, "changes results"), "numerics"),
        get("kind") === "information" && explain(h("span.chip", {tabindex: 0}, "for information"), "kind"),
        get("evidence") &&
          (href
            ? h("a.evidence", {href}, "Evidence: ", get("evidence"))
            : h("span.quiet", "Evidence: ", get("evidence"))),
      ),
    ),
  );
}

function findings(answer) {
  const found = table("findings");
  if (!found) return null;
  const unseen = answer.parts.find((part) => part.kind === "not_seen");
  const judged =
    found.notes.length > 0 &&
    h(
      "details",
      {open: found.rows.length === 0},
      h("summary", "How it was judged, and what could not be"),
      notes(found.notes),
    );
  if (found.rows.length === 0)
    return h(
      "section",
      {id: "findings"},
      h("h2", "Findings: none"),
      h(
        "p.quiet",
        unseen && unseen.percent >= 50
          ? "Most of the time is outside recorded calls, so most rules could not be applied."
          : "No rule found a provable loss of 1 % of a step or more.",
      ),
      judged,
    );
  return h(
    "section",
    {id: "findings"},
    h("h2", `Findings, by what a ${answer.step_noun} could gain`),
    found.rows.map((row) => finding(found, row)),
    judged,
  );
}

function heaviest(answer) {
  if (answer.layers.length === 0) return null;
  const rows = answer.layers.map((row) => ({
    ...row,
    other: Math.max(0, row.time - row.forward - row.backward - row.update),
  }));
  const shown = PARTS.filter((part) => rows.some((row) => row[part.key] > 0));
  return h(
    "section",
    h("h2", `Heaviest layers${answer.has_gpu_times ? ", by GPU time" : ""}`),
    legend(shown),
    bars(
      rows.map((row) => ({
        name: row.layers > 1 ? `${row.name} ×${row.layers}` : row.name,
        parts: shown.map((part) => ({value: row[part.key] || 0, color: part.color})),
        href: hasRows("layers") ? addressAt("layers", [["group", row.name]]) : null,
        numbers: [time(row.time), percent((100 * row.time) / answer.step_ns)],
        data: {layer: row.name, value: row.time},
        tip: () =>
          card(
            row.name,
            [
              ["layers", row.layers > 1 ? row.layers : null],
              ...shown.map((part) => [part.name, time(row[part.key])]),
              [answer.has_gpu_times ? "GPU time" : "time", time(row.time)],
            ],
            `Of a mean ${answer.step_noun}. A star stands for the numbers in which layers of one kind differ.`,
          ),
      })),
    ),
    hasRows("layers") && h("p", h("a", {href: "#layers"}, "All layers")),
  );
}

export const answerView = {
  id: "answer",
  title: "Answer",
  heading: () => page().title,
  missing: () => "",
  render(section) {
    const {answer} = page();
    add(section, [
      h("p.lead", answer.what_ran),
      h("div.hero", h("div.hero-number", time(answer.mean_ns)), h("p", answer.how_long)),
      answer.parts.length > 0 && parts(answer),
      findings(answer),
      heaviest(answer),
      answer.not_seen.length > 0 &&
        h("section", {id: "not-seen"}, h("h2", "What could not be seen"), notes(answer.not_seen)),
    ]);
  },
};
