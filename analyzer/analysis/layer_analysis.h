// Layers and steps that several tables need: computed at first use, once for all of them.
#ifndef DLHOOK_ANALYZER_ANALYSIS_LAYER_ANALYSIS_H_
#define DLHOOK_ANALYZER_ANALYSIS_LAYER_ANALYSIS_H_

#include <optional>
#include <utility>
#include <vector>

#include "analyzer/analysis/attribute.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline analysis {

// Not thread-safe: tables are made one after another.
class LayerAnalysis {
 public:
  // `model` must outlive it and not change.
  explicit LayerAnalysis(const TraceModel& model, AttributionOptions options = {}) : model_(model), options_(options) {}
  // For a slice of a run, for which both are known.
  LayerAnalysis(const TraceModel& model, Attribution attribution, std::vector<StepTrack> steps)
      : model_(model), attribution_(std::move(attribution)), steps_(std::move(steps)) {}

  const Attribution& attribution() const;
  const std::vector<StepTrack>& steps() const;

 private:
  const TraceModel& model_;
  const AttributionOptions options_ = {};
  mutable std::optional<Attribution> attribution_;
  mutable std::optional<std::vector<StepTrack>> steps_;
};

}  // namespace dlhook::analyzer::analysis

#endif  // DLHOOK_ANALYZER_ANALYSIS_LAYER_ANALYSIS_H_
