#include "analyzer/findings/findings_table.h"

#include "analyzer/findings/rules.h"
#include "analyzer/tables/columns.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLargeCausePercent = 10;  // of a step: what it brings about stands behind it

struct FindingRow {
  std::string rule;
  Finding finding;
  double step_ns = 1;
};

TypedColumn<FindingRow> Text(std::string name, std::string explanation, std::string Finding::*text) {
  return {TextColumn(std::move(name), std::move(explanation)),
          [text](const FindingRow& row) { return KnownText(row.finding.*text); }};
}

TypedColumns<FindingRow> Columns() {
  return {
      {As(Role::kKey, TextColumn("rule")), "What found it; stable, for --ignore.", &FindingRow::rule},
      {IntegerColumn("gain", "ns", Better::kLower),
       "Upper bound on the time saved per step; see `basis`. Not known: it is about memory.",
       [](const FindingRow& row) {
         return row.finding.bytes > 0 ? Cell() : Cell(static_cast<int64_t>(row.finding.gain_ns));
       }},
      {RealColumn("gain_percent", "%", Better::kLower), "The gain as a percentage of percent_of.",
       [](const FindingRow& row) {
         return row.finding.bytes > 0 ? Cell() : Cell(row.finding.GainPercent(row.step_ns));
       }},
      {TextColumn("percent_of"),
       "a step: the mean one; all steps: those left out of it, too; the processor time of a step.",
       [](const FindingRow& row) { return std::string(row.finding.whole_ns > 0 ? row.finding.whole : "a step"); }},
      As(Role::kKey, Text("where", "Layers or part of the step; empty: the whole program.", &Finding::where)),
      Text("line", "Of the program.", &Finding::line),
      {Detail(TextColumn("source")), "The text of these lines, if their file is here and as it was when the run began.",
       [](const FindingRow& row) { return KnownText(absl::StrJoin(row.finding.source, " / ")); }},
      Text("finding", "What is slow.", &Finding::sentence),
      Text("advice", "What to do.", &Finding::advice),
      {TextColumn("basis"),
       "How the gain was determined. measured: this time would be saved; computed: by the formula in evidence; at "
       "most: an unknown part of it would be saved.",
       [](const FindingRow& row) { return KnownText(row.finding.bytes > 0 ? "" : GainBasisName(row.finding.basis)); }},
      {TextColumn("confidence"), "high: measured intervals; medium: a model; low: an indication only.",
       [](const FindingRow& row) { return KnownText(ConfidenceName(row.finding.confidence)); }},
      {TextColumn("numerics"), "changes: the advice changes results beyond rounding, or their precision.",
       [](const FindingRow& row) { return KnownText(row.finding.changes_numerics ? "changes" : ""); }},
      {TextColumn("kind"), "loss; information: a choice that only the program's author can make.",
       [](const FindingRow& row) { return KnownText(row.finding.is_information ? "information" : "loss"); }},
      Text("evidence", "The table that proves it.", &Finding::evidence),
  };
}

bool IsIgnored(absl::string_view rule, absl::string_view where, absl::string_view line,
               const std::vector<std::string>& ignored) {
  return absl::c_any_of(ignored, [&](absl::string_view entry) {
    if (RuleOfIgnored(entry) != rule) return false;
    if (entry.size() == rule.size()) return true;
    const absl::string_view place = entry.substr(rule.size() + 1);
    const std::vector<absl::string_view> layers = absl::StrSplit(where, ", ");
    return !place.empty() && (place == where || place == line || absl::c_linear_search(layers, place));
  });
}

}  // namespace

std::vector<RuleFinding> FindAll(const StepFacts& facts) {
  std::vector<RuleFinding> all;
  for (const Rule& rule : Rules()) {
    for (Finding& finding : rule.find(facts)) {
      if (finding.bytes > 0 || facts.IsAtLeast(finding.gain_ns, kLeastPercent))
        all.push_back({std::string(rule.id), std::move(finding)});
    }
  }
  const SourceLines sources(facts.model());
  for (RuleFinding& found : all) found.finding.source = sources.Of(found.finding.line, found.finding.is_in_loop);
  double cause_ns = 0;  // of the largest cause worth it
  for (const auto& [rule, finding] : all) {
    if (!finding.is_information && IsCause(rule) && facts.IsAtLeast(finding.gain_ns, kLargeCausePercent))
      cause_ns = std::max(cause_ns, finding.gain_ns);
  }
  const auto rank = [&](const RuleFinding& found) {
    const bool follows = cause_ns > 0 && !IsCause(found.rule) && found.finding.gain_ns >= cause_ns;
    return std::tuple(found.finding.is_information, follows ? -cause_ns : -found.finding.gain_ns, follows);
  };
  absl::c_stable_sort(all, [&](const RuleFinding& a, const RuleFinding& b) { return rank(a) < rank(b); });
  return all;
}

std::vector<std::string> NotJudged(const StepFacts& facts, size_t most_named) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;  // in the order of the rules
  for (const Rule& rule : Rules()) {
    const std::string reason = rule.missing == nullptr ? "" : rule.missing(facts);
    if (reason.empty()) continue;
    auto known = absl::c_find_if(by_reason, [&](const auto& one) { return one.first == reason; });
    if (known == by_reason.end()) known = by_reason.insert(known, {reason, {}});
    known->second.emplace_back(rule.id);
  }
  std::vector<std::string> sentences;
  for (const auto& [reason, rules] : by_reason) {
    const std::string which =
        rules.size() > most_named ? absl::StrCat(rules.size(), " rules") : absl::StrJoin(rules, ", ");
    sentences.push_back(absl::StrCat("Could not judge: ", which, " (", reason, ")."));
  }
  return sentences;
}

const std::vector<TableKind>& ReportTables() {
  static const auto& kTables = *[] {
    auto* tables =
        new std::vector<TableKind>{{"findings", "what could be faster, why, and what to do about it", FindingsTable}};
    tables->insert(tables->end(), TableKinds().begin(), TableKinds().end());
    const auto ops =
        std::find_if(tables->begin(), tables->end(), [](const TableKind& kind) { return kind.name == "ops"; });
    tables->insert(ops, {"work", "what each layer's time consists of: op, problem, algorithm, formats", MeanWorkTable});
    return tables;
  }();
  return kTables;
}

absl::StatusOr<Table> FindingsTable(const TraceModel& model, const TableOptions& options) {
  const StepFacts facts(model, options);
  std::vector<FindingRow> rows;
  for (RuleFinding& found : FindAll(facts)) {
    rows.push_back({std::move(found.rule), std::move(found.finding), facts.step_ns()});
  }
  Table table = NewTable("findings", "What could be faster, by the gain per step", Columns(), rows);
  table.sentences_from = "finding";
  table.Note(Rules().size(), " rules looked at a ", facts.StepNoun(), " of ", HumanTime(facts.step_ns()),
             ". Gains may overlap: do not add them up.");
  for (std::string& sentence : NotJudged(facts)) table.notes.push_back(std::move(sentence));
  return table;
}

absl::string_view RuleOfIgnored(absl::string_view ignored) { return ignored.substr(0, ignored.find(':')); }

size_t LeaveOut(const std::vector<std::string>& ignored, std::vector<RuleFinding>* findings) {
  return std::erase_if(*findings, [&](const RuleFinding& found) {
    return IsIgnored(found.rule, found.finding.where, found.finding.line, ignored);
  });
}

void LeaveOut(const std::vector<std::string>& ignored, Table* findings) {
  const size_t count = std::erase_if(findings->rows, [&](const Row& row) {
    return IsIgnored(TextOf(*findings, row, "rule"), TextOf(*findings, row, "where"), TextOf(*findings, row, "line"),
                     ignored);
  });
  if (count > 0) findings->notes.push_back(IgnoredSentence(count));
}

std::string IgnoredSentence(size_t count) {
  return absl::StrCat(count, count == 1 ? " finding is" : " findings are", " ignored (--ignore, .dlhook-ignore).");
}

namespace {

using Key = std::pair<std::string, std::string>;  // rule; place where a rule has several findings

// Its layers or part of a step, else its lines' text without their numbers, which change with the file, else its line.
std::string PlaceOf(const Finding& finding) {
  if (!finding.where.empty() || finding.source.empty()) return finding.where.empty() ? finding.line : finding.where;
  std::string text;
  for (const std::string& line : finding.source) absl::StrAppend(&text, line.substr(line.find(':')));
  return text;
}

std::set<std::string> RulesWithSeveral(const FindingsOfRuns& base, const FindingsOfRuns& new_side) {
  std::set<std::string> rules;
  for (const FindingsOfRuns* side : {&base, &new_side}) {
    for (const std::vector<RuleFinding>& run : *side) {
      std::set<std::string> seen;
      for (const RuleFinding& found : run) {
        if (!seen.insert(found.rule).second) rules.insert(found.rule);
      }
    }
  }
  return rules;
}

struct Found {
  size_t runs = 0;
  const RuleFinding* first = nullptr;
};

std::map<Key, Found> FoundOn(const FindingsOfRuns& side, const std::set<std::string>& several) {
  std::map<Key, Found> found;
  for (const std::vector<RuleFinding>& run : side) {
    std::set<Key> seen;
    for (const RuleFinding& finding : run) {
      Key key = {finding.rule, several.contains(finding.rule) ? PlaceOf(finding.finding) : ""};
      if (!seen.insert(key).second) continue;
      Found& sum = found[std::move(key)];
      ++sum.runs;
      if (sum.first == nullptr) sum.first = &finding;
    }
  }
  return found;
}

constexpr double kMuchMore = 2;  // times

// Those that most runs of `side` have and of `other` have not, or have much less of.
void AddOwn(const FindingsOfRuns& side, const FindingsOfRuns& other, const std::set<std::string>& several, bool is_new,
            std::vector<FindingChange>& changes) {
  const std::map<Key, Found> own = FoundOn(side, several), others = FoundOn(other, several);
  for (const auto& [key, found] : own) {
    const auto same = others.find(key);
    const bool is_on_other = same != others.end() && 2 * same->second.runs > other.size();
    const double gain_ns = found.first->finding.gain_ns;
    const double same_ns = is_on_other ? same->second.first->finding.gain_ns : 0;
    if (2 * found.runs <= side.size()) continue;
    if (is_on_other && (same_ns == 0 || gain_ns < kMuchMore * same_ns)) continue;
    // The other side has it elsewhere, and much less of it: here it has none.
    const bool is_same_place = is_on_other && PlaceOf(found.first->finding) == PlaceOf(same->second.first->finding);
    changes.push_back({is_new, found.first, is_same_place ? same_ns : 0});
  }
}

}  // namespace

std::vector<FindingChange> ChangedFindings(const FindingsOfRuns& base, const FindingsOfRuns& new_side) {
  const std::set<std::string> several = RulesWithSeveral(base, new_side);
  std::vector<FindingChange> changes;
  AddOwn(new_side, base, several, true, changes);
  AddOwn(base, new_side, several, false, changes);
  absl::c_stable_sort(changes,
                      [](const FindingChange& a, const FindingChange& b) { return a.change_ns() > b.change_ns(); });
  return changes;
}

bool IsCause(absl::string_view rule) {
  constexpr absl::string_view kSymptoms[] = {"page-faults",  "layout-conversions", "python-bound", "unfused-ops",
                                             "machine-busy", "lower-precision",    "gpu-idle"};
  return !absl::c_linear_search(kSymptoms, rule);
}

Table FindingsDiff(const std::vector<FindingChange>& changes) {
  const TypedColumns<FindingChange> columns = {
      {TextColumn("change"),
       "new: only NEW has it; gone: only BASE has it; more, less: its gain in NEW is at least twice that in BASE, or "
       "at most half.",
       [](const FindingChange& row) {
         if (row.other_ns > 0) return Cell(std::string(row.is_new ? "more" : "less"));
         return Cell(std::string(row.is_new ? "new" : "gone"));
       }},
      {As(Role::kKey, TextColumn("rule")), "What found it.",
       [](const FindingChange& row) { return Cell(row.found->rule); }},
      {IntegerColumn("gain", "ns", Better::kLower),
       "Upper bound on the time saved per step, on the side that has it, or more of it.",
       [](const FindingChange& row) { return Cell(static_cast<int64_t>(row.found->finding.gain_ns)); }},
      {TextColumn("where"), "Layers or part of the step.",
       [](const FindingChange& row) { return KnownText(row.found->finding.where); }},
      {TextColumn("finding"), "What is slow.",
       [](const FindingChange& row) { return KnownText(row.found->finding.sentence); }},
      {Detail(TextColumn("advice")), "What to do.",
       [](const FindingChange& row) { return KnownText(row.found->finding.advice); }},
  };
  return NewTable("findings", "Findings (dlhook report RUN) that only one side has, or has much more of", columns,
                  changes);
}

}  // namespace dlhook::analyzer::findings
