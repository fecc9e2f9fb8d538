// A layer and a direction as text: see place_title.h.
#include "analyzer/layers/place_title.h"

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline layers {

std::string PlaceTitle(const std::vector<Layer>& layers, Place place) {
  const Layer& layer = layers[place.layer];
  const bool has_direction = place.direction != LayerDirection::kUnknown;
  return absl::StrCat(layer.model, layer.model.empty() ? "" : ": ", layer.name, has_direction ? " " : "",
                      has_direction ? LayerDirectionName(place.direction) : "");
}

}  // namespace dlhook::analyzer::layers
