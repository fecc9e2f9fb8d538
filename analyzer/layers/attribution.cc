// Names of directions and evidence, places of gaps: see attribution.h.
#include "analyzer/layers/attribution.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline layers {

const char* LayerDirectionName(LayerDirection direction) {
  constexpr const char* kNames[kLayerDirections] = {"unknown",       "forward",  "backward-data", "backward-weights",
                                                    "backward-bias", "backward", "recompute",     "update"};
  return kNames[static_cast<size_t>(direction)];
}

bool IsBackward(LayerDirection direction) {
  return direction == LayerDirection::kBackward || direction == LayerDirection::kBackwardData ||
         direction == LayerDirection::kBackwardWeights || direction == LayerDirection::kBackwardBias;
}

LayerDirection BackwardOf(Direction direction) {
  switch (direction) {
    case Direction::kBackwardData:
      return LayerDirection::kBackwardData;
    case Direction::kBackwardWeights:
      return LayerDirection::kBackwardWeights;
    case Direction::kBackwardBias:
      return LayerDirection::kBackwardBias;
    default:
      return LayerDirection::kBackward;
  }
}

const char* EvidenceName(Evidence evidence) {
  constexpr const char* kNames[] = {"", "framework", "module", "function", "pointers", "shapes", "order"};
  static_assert(std::size(kNames) == static_cast<size_t>(Evidence::kOrder) + 1);
  return kNames[static_cast<size_t>(evidence)];
}

// A range that belongs to a layer, such as an optimizer's step, also contains its gaps, but for those beside a closure.
Place Attribution::PlaceOfGap(const UnseenGap& gap) const {
  const auto at = of_gap.find({gap.before, gap.after});
  const Place place = at == of_gap.end() ? Place() : at->second.place;
  const bool is_of_program = at != of_gap.end() && at->second.is_of_program;
  return place.layer == kNone && !is_of_program && gap.around < of_scope.size() ? PlaceOfScope(gap.around) : place;
}

const std::string& Attribution::LineOfGap(const UnseenGap& gap) const {
  static const std::string* const none = new std::string;
  const auto at = of_gap.find({gap.before, gap.after});
  return at == of_gap.end() ? *none : at->second.line;
}

void KeepLayers(const std::vector<LayerIndex>& order, Attribution* attribution) {
  std::vector<LayerIndex> new_index(attribution->layers.size(), kNone);
  std::vector<Layer> layers;
  for (LayerIndex old : order) {
    new_index[old] = static_cast<LayerIndex>(layers.size());
    layers.push_back(std::move(attribution->layers[old]));
  }
  attribution->layers = std::move(layers);
  if (std::is_sorted(order.begin(), order.end()) && order.size() == new_index.size()) return;  // as they were
  const auto renumber = [&](Place& place) {
    if (place.layer != kNone) place.layer = new_index[place.layer];
  };
  for (ScopeIndex scope = 0; scope < attribution->of_scope.size(); ++scope) {
    Place place = attribution->of_scope[scope];
    renumber(place);
    attribution->of_scope.Set(scope, place);
  }
  for (Layer& layer : attribution->layers) {
    for (LoopPart& part : layer.loop_parts) part.layer = new_index[part.layer];
  }
  for (Place& place : attribution->of_call) renumber(place);
  for (auto& [stacks, gap] : attribution->of_gap) renumber(gap.place);
}

std::string PlaceTitle(const std::vector<Layer>& layers, Place place) {
  const Layer& layer = layers[place.layer];
  const bool has_direction = place.direction != LayerDirection::kUnknown;
  return absl::StrCat(layer.model, layer.model.empty() ? "" : ": ", layer.name, has_direction ? " " : "",
                      has_direction ? LayerDirectionName(place.direction) : "");
}

}  // namespace dlhook::analyzer::layers
