// Layers by all evidence together: see attribution.h.
#include "analyzer/layers/attribution.h"

#include <utility>

#include "analyzer/layers/compiled_regions.h"
#include "analyzer/layers/function_layers.h"
#include "analyzer/layers/gap_places.h"

namespace dlhook::analyzer {
namespace {

// Takes over the layers that the structure shows of calls outside all scopes: inside scopes the framework had its say.
void TakeOpenCalls(const TraceModel& model, const Attribution& structure, Attribution* attribution) {
  std::vector<LayerIndex> new_index(structure.layers.size(), kNone);
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Place& found = structure.of_call[call];
    Place& place = attribution->of_call[call];
    if (found.layer == kNone || place.layer != kNone || model.calls.ScopeOf(call) != kNone) continue;
    if (new_index[found.layer] == kNone) {
      new_index[found.layer] = static_cast<LayerIndex>(attribution->layers.size());
      attribution->layers.push_back(structure.layers[found.layer]);
    }
    place = {new_index[found.layer], found.direction};
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

const char* LayerDirectionName(LayerDirection direction) {
  switch (direction) {
    case LayerDirection::kUnknown: return "unknown";
    case LayerDirection::kForward: return "forward";
    case LayerDirection::kBackwardData: return "backward-data";
    case LayerDirection::kBackwardWeights: return "backward-weights";
    case LayerDirection::kBackwardBias: return "backward-bias";
    case LayerDirection::kBackward: return "backward";
    case LayerDirection::kRecompute: return "recompute";
    case LayerDirection::kUpdate: return "update";
  }
  return "unknown";
}

const char* EvidenceName(Evidence evidence) {
  switch (evidence) {
    case Evidence::kNone: return "";
    case Evidence::kFramework: return "framework";
    case Evidence::kModule: return "module";
    case Evidence::kFunction: return "function";
    case Evidence::kPointers: return "pointers";
    case Evidence::kShapes: return "shapes";
    case Evidence::kOrder: return "order";
  }
  return "";
}

// A range that belongs to a layer, as an optimizer's step does, holds its gaps.
GapPlace Attribution::OfGap(const UnseenGap& gap) const {
  const auto at = of_gap.find({gap.before, gap.after});
  GapPlace found = at == of_gap.end() ? GapPlace() : at->second;
  if (found.place.layer == kNone && gap.around < of_scope.size()) found.place = of_scope[gap.around];
  return found;
}

void KeepLayers(const std::vector<LayerIndex>& order, Attribution* attribution) {
  std::vector<LayerIndex> new_index(attribution->layers.size(), kNone);
  std::vector<Layer> layers;
  for (LayerIndex old : order) {
    new_index[old] = static_cast<LayerIndex>(layers.size());
    layers.push_back(std::move(attribution->layers[old]));
  }
  attribution->layers = std::move(layers);
  const auto renumber = [&](Place& place) {
    if (place.layer != kNone) place.layer = new_index[place.layer];
  };
  for (Place& place : attribution->of_scope) renumber(place);
  for (Place& place : attribution->of_call) renumber(place);
  for (auto& [stacks, gap] : attribution->of_gap) renumber(gap.place);
}

Attribution AttributeToLayers(const TraceModel& model, const AttributionOptions& options) {
  Attribution attribution;
  if (options.use_framework_evidence) {
    attribution = AttributeByFramework(model);
    // With layers of the framework, calls outside its scopes are preparations, other libraries' work …: few, and no layers.
    if (attribution.layers.empty() && HasOpenCalls(model, attribution)) {
      Attribution structure = AttributeByStructure(model);
      NameByFunctions(model, &structure);
      TakeOpenCalls(model, structure, &attribution);
    }
  } else {
    attribution = AttributeByStructure(model);
    attribution.of_scope.resize(model.scopes.size());
  }
  AttributeCompiledRegions(model, &attribution);
  PlaceGaps(model, options.use_framework_evidence, &attribution);
  return attribution;
}

}  // namespace dlhook::analyzer
