// The runs of a side as one, each of which counts the same however many steps it has.
#ifndef DLHOOK_ANALYZER_DIFF_MERGE_RUNS_H_
#define DLHOOK_ANALYZER_DIFF_MERGE_RUNS_H_

#include <vector>

#include "analyzer/diff/measured_run.h"
#include "analyzer/work/done_work.h"

namespace dlhook::analyzer::inline diff {

// Times and counts per step are means over the runs; of other cells those of the first run that has the row. `runs`: at
// least one, of equal tables.
MeasuredRun MergeRuns(std::vector<MeasuredRun> runs);

DoneWork MergeWork(const std::vector<DoneWork>& runs);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_MERGE_RUNS_H_
