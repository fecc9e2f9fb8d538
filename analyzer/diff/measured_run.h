// A run as it is compared with another: tables over its steps, and how much these spread.
#ifndef DLHOOK_ANALYZER_DIFF_MEASURED_RUN_H_
#define DLHOOK_ANALYZER_DIFF_MEASURED_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/diff/compared_steps.h"
#include "analyzer/diff/machine_load.h"
#include "analyzer/diff/noise.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline diff {

struct MeasuredTable {
  Table table;
  double per = 1;                  // sums are of so many steps
  size_t block_count = 0;          // 0: there are no steps
  std::vector<BlockMeans> blocks;  // of each row: its weight per step in each block
};

struct MeasuredRun {
  ComparedSteps steps;    // without any: times are of the whole run
  double time_ns = 0;     // of a mean step, or the run
  BlockMeans blocks;      // the same in each block
  BlockMeans low_blocks;  // in each block the lower quartile of its steps
  MachineLoad load;
  std::vector<MeasuredTable> tables;  // one a kind
};

// Whether tables of this kind can be compared: there is a time by which.
bool IsComparable(const Table& table);

// What the durations of the steps alone tell: `steps` to `low_blocks`.
MeasuredRun MeasureDurations(const ComparedSteps& steps);

// `model` with its choices resolved. `options`: of the whole run; only how its layers are folded is taken from them
// where there are steps.
absl::StatusOr<MeasuredRun> MeasureRun(const TraceModel& model, const TableOptions& options, const ComparedSteps& steps,
                                       const std::vector<const TableKind*>& kinds);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_MEASURED_RUN_H_
