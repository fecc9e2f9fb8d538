// A layer and a direction as text.
#ifndef DLHOOK_ANALYZER_LAYERS_PLACE_TITLE_H_
#define DLHOOK_ANALYZER_LAYERS_PLACE_TITLE_H_

#include <string>
#include <vector>

#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline layers {

// "features.0 backward-data", with the model's name before it where there are several: "AlexNet: features.0 forward".
std::string PlaceTitle(const std::vector<Layer>& layers, Place place);

}  // namespace dlhook::analyzer::layers

#endif  // DLHOOK_ANALYZER_LAYERS_PLACE_TITLE_H_
