// Layers and steps shared by tables: see layer_analysis.h.
#include "analyzer/analysis/layer_analysis.h"

#include "analyzer/time/request_loops.h"

namespace dlhook::analyzer::inline analysis {

const Attribution& LayerAnalysis::attribution() const {
  if (whole_ != nullptr) return whole_->attribution();
  std::call_once(attributed_, [this] {
    if (!attribution_) attribution_ = AttributeToLayers(model_, options_);
  });
  return *attribution_;
}

const std::vector<StepTrack>& LayerAnalysis::steps() const {
  if (known_steps_ != nullptr) return *known_steps_;
  std::call_once(steps_found_, [this] {
    if (steps_) return;
    steps_ = FindStepTracks(model_, attribution());
    CloseLoops(model_, &*steps_);
  });
  return *steps_;
}

}  // namespace dlhook::analyzer::analysis
