#include "analyzer/analysis/layer_analysis.h"

#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/layers/functions/layer_functions.h"
#include "analyzer/layers/structure/structure.h"
#include "analyzer/model/beside.h"
#include "analyzer/time/gap_places.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline analysis {
namespace {

// Adopts the layers that the structure shows for calls outside all scopes; inside scopes the framework decides.
void TakeOpenCalls(const TraceModel& model, const Attribution& structure, Attribution* attribution) {
  std::vector<LayerIndex> new_index(structure.layers.size(), kNone);
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Place& found = structure.of_call[call];
    Place& place = attribution->of_call[call];
    if (found.layer == kNone || place.layer != kNone || model.calls.ScopeOf(call) != kNone) continue;
    LayerIndex& layer = new_index[found.layer];
    if (layer == kNone) layer = attribution->Add(structure.layers[found.layer]);
    place = {layer, found.direction};
  }
  for (const auto& [sentence, count] : structure.oddities) attribution->oddities[sentence] += count;
}

bool HasOpenCalls(const TraceModel& model, const Attribution& attribution) {
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (attribution.of_call[call].layer == kNone && model.calls.ScopeOf(call) == kNone) return true;
  }
  return false;
}

}  // namespace

Attribution AttributeToLayers(const TraceModel& model, const AttributionOptions& options) {
  auto gaps = Beside([&model] { return FindGaps(model); });
  Attribution attribution;
  if (options.use_framework_evidence) {
    attribution = AttributeByFramework(model);
    // If there are framework layers, calls outside its scopes are preparations, other libraries' work …: few, and not
    // layers.
    if (attribution.layers.empty() && HasOpenCalls(model, attribution)) {
      Attribution structure = AttributeByStructure(model);
      NameByFunctions(model, &structure);
      TakeOpenCalls(model, structure, &attribution);
    }
  } else {
    attribution = AttributeByStructure(model);
    attribution.of_scope.Fill(model.scopes.size(), Place());
  }
  AttributeCompiledRegions(model, &attribution);
  PlaceGaps(model, *gaps.get(), options.use_framework_evidence, &attribution);
  return attribution;
}

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
