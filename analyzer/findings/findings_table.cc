// Table `findings`: see findings_table.h.
#include "analyzer/findings/findings_table.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline findings {
namespace {

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("rule", "What found it; stable, for --ignore.")),
      IntegerColumn("gain", "ns", Better::kLower, "What a mean step could lose at most; see basis."),
      RealColumn("gain_percent", "%", Better::kLower, "The same as a part of the step."),
      As(Role::kKey, TextColumn("where", "Layers or part of the step; empty: the whole program.")),
      TextColumn("line", "Of the program."),
      TextColumn("finding", "What is slow."),
      TextColumn("advice", "What to do."),
      TextColumn(
          "basis",
          "How the gain was found. measured: the time that would be gone; computed: by the formula that evidence "
          "states; at most: an unknown part of it."),
      TextColumn("confidence", "high: measured intervals; medium: by a model; low: a sign only."),
      TextColumn("numerics", "changes: the advice changes results beyond rounding, or their precision."),
      TextColumn("evidence", "The table that proves it."),
  };
}

Cell TextOrUnknown(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

}  // namespace

std::vector<RuleFinding> FindAll(const StepFacts& facts) {
  std::vector<RuleFinding> all;
  for (const Rule& rule : Rules()) {
    for (Finding& finding : rule.find(facts)) {
      if (facts.IsAtLeast(finding.gain_ns, kLeastPercent)) all.push_back({std::string(rule.id), std::move(finding)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RuleFinding& a, const RuleFinding& b) { return a.finding.gain_ns > b.finding.gain_ns; });
  return all;
}

const std::vector<TableKind>& ReportTables() {
  static const auto& kTables = *[] {
    auto* tables =
        new std::vector<TableKind>{{"findings", "what could be faster, why, and what to do about it", FindingsTable}};
    tables->insert(tables->end(), TableKinds().begin(), TableKinds().end());
    return tables;
  }();
  return kTables;
}

absl::StatusOr<Table> FindingsTable(const TraceModel& model, const TableOptions& options) {
  const StepFacts facts(model, options);
  Table table = NewTable("findings", "What could be faster, by what a step would gain", Columns());
  for (const auto& [rule, finding] : FindAll(facts)) {
    table.rows.push_back({rule, static_cast<int64_t>(finding.gain_ns), 100 * finding.gain_ns / facts.step_ns(),
                          TextOrUnknown(finding.where), TextOrUnknown(finding.line), finding.sentence, finding.advice,
                          std::string(GainBasisName(finding.basis)), std::string(ConfidenceName(finding.confidence)),
                          TextOrUnknown(finding.changes_numerics ? "changes" : ""), finding.evidence});
  }
  table.notes.push_back(absl::StrCat(Rules().size(), " rules looked at a ", facts.StepNoun(), " of ",
                                     HumanTime(facts.step_ns()), ". Gains may overlap and are not to be added up."));
  return table;
}

}  // namespace dlhook::analyzer::findings
