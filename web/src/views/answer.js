// What ran, where a step's time goes, what could be faster: the screen of `dlhook report RUN`.
import {addressAt} from "../address.js";
import {bars} from "../bars.js";
import {hasRows, page, table} from "../data.js";
import {add, h, notes} from "../dom.js";
import {percent, time} from "../format.js";
import {PARTS, legendOfLayers, partsOf} from "../layer_rows.js";
import {addressOf, addressOfEvidence} from "../links.js";
import {card, tip} from "../tip.js";
import {isCommunication, joined, part, saysOfFinding} from "./parts.js";

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
    row = accounting?.objects.find((one) => [what, "aten::" + what].includes(one.what));
  return addressOf("accounting", row ? [["row.accounting", "what=" + row.what]] : []);
}

function parts(answer) {
  const rows = answer.parts.map(({name, kind, ns, percent: share}) => ({
    name,
    href: addressOfPart(name),
    parts: [{value: ns, color: isCommunication(name) ? "communication" : COLORS[kind] || "other"}],
    numbers: [time(ns), share + " %"],
    data: {part: name, kind, value: ns},
    tip: () =>
      card(
        name,
        [
          ["of a mean " + answer.step_noun, time(ns)],
          ["share", share + " %"],
        ],
        "Wall share: each instant is divided equally among the activities in it, so the parts add up to the step.",
      ),
  }));
  return part(
    `Where a ${answer.step_noun} goes`,
    time(answer.mean_ns) !== time(answer.step_ns) &&
      h("p.quiet", `Of those whose operations were recorded: ${time(answer.step_ns)} on average.`),
    bars(rows, {most: answer.step_ns}),
    answer.step_remarks.map((remark) => h("p.quiet", remark)),
  );
}

function finding(findings, one) {
  const explain = (element, name) => tip(element, () => card(name.replace(/_/g, " "), [], findings.explanation(name)));
  const chip = (text, name, kind = "") => explain(h("span.chip" + kind, {tabindex: 0}, text), name);
  const lead = {measured: "", computed: "about "}[one.basis] ?? "up to ",
    isInformation = one.kind === "information";
  const href = addressOfEvidence(one.evidence, one.where);
  const where = joined([one.where, !(one.where || "").includes(one.line) && one.line]);
  return h(
    "article.finding" + (isInformation ? ".information" : ""),
    {"data-rule": one.rule},
    h(
      "div.gain",
      one.gain === null
        ? explain(h("strong", {tabindex: 0}, "memory"), "gain")
        : [
            explain(h("strong", {tabindex: 0, "data-value": one.gain}, lead, time(one.gain)), "gain"),
            explain(
              h("span", {"data-value": one.gain_percent}, percent(one.gain_percent), " of " + one.percent_of),
              "gain_percent",
            ),
          ],
    ),
    h(
      "div.what",
      saysOfFinding(one.rule, where, one.finding, one.advice),
      h(
        "p.chips",
        chip(one.basis, "basis"),
        chip(`confidence ${one.confidence}`, "confidence"),
        one.numerics && chip("changes results", "numerics", ".warn"),
        isInformation && chip("for information", "kind"),
        one.evidence && h(href ? "a.evidence" : "span.quiet", {href}, "Evidence: ", one.evidence),
      ),
    ),
  );
}

function findings(answer) {
  const found = table("findings");
  if (!found) return null;
  const unseen = answer.parts.find((one) => one.kind === "not_seen");
  const judged =
    found.notes.length > 0 &&
    h(
      "details",
      {open: found.rows.length === 0},
      h("summary", "How it was judged, and what could not be"),
      notes(found.notes),
    );
  const none =
    unseen?.percent >= 50
      ? "Most of the time is outside recorded calls, so most rules could not be applied."
      : "No rule found a provable loss of 1 % of a step or more.";
  return part(
    found.rows.length === 0 ? "Findings: none" : `Findings, by what a ${answer.step_noun} could gain`,
    found.rows.length === 0 ? h("p.quiet", none) : found.objects.map((one) => finding(found, one)),
    judged,
  );
}

function heaviest(answer) {
  if (answer.layers.length === 0) return null;
  const rows = answer.layers.map((row) => ({
    ...row,
    other: Math.max(0, row.time - row.forward - row.backward - row.update),
  }));
  return part(
    `Heaviest layers${answer.has_gpu_times ? ", by GPU time" : ""}`,
    legendOfLayers(rows),
    bars(
      rows.map((row) => ({
        name: row.layers > 1 ? `${row.name} ×${row.layers}` : row.name,
        parts: partsOf(row),
        href: hasRows("layers") ? addressAt("layers", [["group", row.name]]) : null,
        numbers: [time(row.time), percent((100 * row.time) / answer.step_ns)],
        data: {layer: row.name, value: row.time},
        tip: () =>
          card(
            row.name,
            [
              ["layers", row.layers > 1 && row.layers],
              ...PARTS.map((part) => [part, row[part] > 0 && time(row[part])]),
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
  tables: ["findings"],
  isWhole: true,
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
