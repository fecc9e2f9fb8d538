// Compares two sides of one or several runs each: the verdict first, then the tables.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/diff/decision.h"
#include "analyzer/diff/verdict.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

// A run with what tables need; choices resolved.
struct AnalyzedRun {
  const TraceModel* model = nullptr;
  TableOptions options;
};

struct RunsDiff {
  std::string environment;  // differences in the environment, reported first; empty: none
  std::vector<Difference> differences;
  // `verdict` first (its title is the sentence), then `causes`, `differences`, and one table per kind.
  std::vector<Table> tables;
  Decision decision;
};

// At least one run a side. `kinds` must be comparable (measured_run.h).
absl::StatusOr<RunsDiff> DiffRuns(const BaseSide<std::vector<AnalyzedRun>>& base,
                                  const NewSide<std::vector<AnalyzedRun>>& new_side,
                                  const std::vector<const TableKind*>& kinds,
                                  std::vector<OwnFinding> own_findings = {});

// The tables that can be compared, `work` first, which only the diff has.
const std::vector<TableKind>& ComparableTables();

}  // namespace dlhook::analyzer::diff
