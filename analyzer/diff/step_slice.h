// A run as if only some of its steps had happened: every table is made of it unchanged, and says what these steps cost.
#ifndef DLHOOK_ANALYZER_DIFF_STEP_SLICE_H_
#define DLHOOK_ANALYZER_DIFF_STEP_SLICE_H_

#include <optional>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/diff/compared_steps.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline diff {

class StepSlice {
 public:
  // `model` with its choices resolved. Calls and scopes that were under way in one of the steps are kept whole;
  // searches for algorithms, which concern no single step, and calls of which only totals are known are not.
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
