// A run as if only some of its steps had happened: every table can be made from it, and then covers only these steps.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/compared_steps.h"

namespace dlhook::analyzer::inline diff {

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

}  // namespace dlhook::analyzer::diff
