// A run as if only some of its steps had happened: every table can be made from it, and then covers only these steps.
#ifndef DLHOOK_ANALYZER_DIFF_STEP_SLICE_H_
#define DLHOOK_ANALYZER_DIFF_STEP_SLICE_H_

#include <optional>

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

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_STEP_SLICE_H_
