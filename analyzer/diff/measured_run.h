// A run prepared for comparison: tables over its steps, and how much these vary.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/table/table.h"
#include "analyzer/tables/tables.h"
#include "analyzer/work/done_work.h"
#include "analyzer/work/machine_load.h"
#include "analyzer/work/noise.h"
#include "analyzer/work/preparing.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline diff {

// A run as if only some of its steps had happened: every table can be made from it, and then covers only these steps.
class StepSlice {
 public:
  // `model`: choices resolved. Calls and scopes that were active during one of the steps are kept whole. Searches for
  // algorithms, which belong to no single step, and aggregated calls are dropped.
  StepSlice(const TraceModel& model, const Attribution& attribution, const ComparedSteps& steps);
  StepSlice(const StepSlice&) = delete;
  StepSlice& operator=(const StepSlice&) = delete;

  const TraceModel& model() const { return model_; }
  const LayerAnalysis& analysis() const { return *analysis_; }
  const RunTotals& totals() const { return totals_; }
  const Choices& choices() const { return choices_; }

 private:
  TraceModel model_;
  Choices choices_;
  RunTotals totals_;
  std::optional<LayerAnalysis> analysis_;
};

// The same for counter readings. `intervals`: ascending, disjoint. Between them the series counts nothing. Counts
// between two readings are divided by time, so that slices of adjacent intervals add up to the whole.
CounterSeries SliceOf(const CounterSeries& series, const std::vector<std::pair<int64_t, int64_t>>& intervals);

struct MeasuredTable {
  Table table;
  double per = 1;                    // number of steps that sums cover
  std::vector<size_t> block_counts;  // of each run; 0: no steps
  std::vector<Samples> samples;      // for each row: its weight per step in each block of each run
};

// Or the runs of a side as one (MergeRuns).
struct MeasuredRun {
  std::vector<std::string> names = {""};  // of the runs
  std::string failure;                    // of the first that failed: "ended with code 1"
  ComparedSteps steps;                    // if empty, times cover the whole run
  double time_ns = 0;                     // mean per step, or the run
  Samples samples;                        // the same in each block of each run
  Samples low_samples;                    // in each block the lower quartile of its steps
  MachineLoad load;
  Preparing preparing;
  TimeAround around;
  LookSums between_calls;                       // what threads did in time that is not seen
  std::map<std::string, double> between_lines;  // nanoseconds of it per step, by GapLines.text
  std::vector<MeasuredTable> tables;            // one per kind

  // For a processor that other programs used, a tenth of a step and more.
  double OthersNs() const { return load.waiting_ns * load.OthersPart(); }
  bool WaitedMuch() const { return load.is_known && OthersNs() > 0.1 * time_ns; }
};

// Whether tables of this kind can be compared, that is, have a time.
bool IsComparable(const Table& table);

// What needs only the durations of the steps: `steps` to `low_samples`.
MeasuredRun MeasureDurations(const ComparedSteps& steps);

// `model`: choices resolved. `options`: for the whole run; if there are steps, only the folding of layers is taken from
// them.
absl::StatusOr<MeasuredRun> MeasureRun(const TraceModel& model, const TableOptions& options, const ComparedSteps& steps,
                                       const std::vector<const TableKind*>& kinds);

// The runs of a side as one, each of which counts the same however many steps it has: times and counts per step are
// means over the runs; of other cells those of the first run that has the row. `runs`: at least one, of equal tables.
MeasuredRun MergeRuns(std::vector<MeasuredRun> runs);

DoneWork MergeWork(const std::vector<DoneWork>& runs);

}  // namespace dlhook::analyzer::diff
