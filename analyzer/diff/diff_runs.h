// Two runs -> what changed from one to the other: the verdict first, then its tables.
#ifndef DLHOOK_ANALYZER_DIFF_DIFF_RUNS_H_
#define DLHOOK_ANALYZER_DIFF_DIFF_RUNS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/diff/decision.h"
#include "analyzer/diff/sides.h"
#include "analyzer/passes/pass.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer {

// A run with what passes need of it; choices resolved.
struct AnalyzedRun {
  const TraceModel* model = nullptr;
  PassOptions options;
};

struct RunsDiff {
  // `verdict` first (its title is the sentence), then `differences`, then one for each pass.
  std::vector<Table> tables;
  Decision decision;
};

// `passes` must make comparable tables (measured_run.h).
absl::StatusOr<RunsDiff> DiffRuns(Baseline<AnalyzedRun> base, Contender<AnalyzedRun> candidate,
                                  const std::vector<const Pass*>& passes);

// The passes that can be compared, `work` first: it is of the diff alone.
const std::vector<Pass>& ComparablePasses();

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_DIFF_DIFF_RUNS_H_
