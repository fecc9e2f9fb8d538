// Table `findings`: what the rules found, those with the largest gain first.
#ifndef DLHOOK_ANALYZER_FINDINGS_FINDINGS_TABLE_H_
#define DLHOOK_ANALYZER_FINDINGS_FINDINGS_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/findings/finding.h"
#include "analyzer/findings/step_facts.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline findings {

struct RuleFinding {
  std::string rule;  // its id
  Finding finding;
};

// By gain. What all of a step can't lose together is not claimed twice: see Rules().
std::vector<RuleFinding> FindAll(const StepFacts& facts);

// All tables that a report has: `findings`, then TableKinds() with `work` among them.
const std::vector<TableKind>& ReportTables();

absl::StatusOr<Table> FindingsTable(const TraceModel& model, const TableOptions& options);

}  // namespace dlhook::analyzer::findings

#endif  // DLHOOK_ANALYZER_FINDINGS_FINDINGS_TABLE_H_
