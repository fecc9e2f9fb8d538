// Matches the layers of two runs: see match_rows.h.

#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/diff/changes.h"

namespace dlhook::analyzer::inline diff {
namespace {

// With more layers (branches unrolled by a tracer) names are compared as they are: the table below has the product of
// both numbers as its size.
constexpr size_t kMostLayers = 4000;

struct Named {
  std::string name, type;
  std::set<std::string> problems;  // of its forward pass
};

// Each name once, in the order of the first forward pass.
std::vector<Named> NamedLayers(const NetworkSide& network) {
  const Attribution& attribution = *network.attribution;
  std::vector<Named> layers;
  std::map<std::string, size_t> places;
  for (const Layer& layer : attribution.layers) {
    if (places.try_emplace(layer.name, layers.size()).second) layers.push_back({layer.name, layer.type, {}});
  }
  std::set<std::pair<LayerIndex, OpIndex>> seen;
  for (CallIndex call = 0; call < attribution.of_call.size(); ++call) {
    const Place& place = attribution.of_call[call];
    if (place.layer == kNone || place.direction != LayerDirection::kForward) continue;
    const OpIndex op = network.model->calls.op[call];
    if (!seen.insert({place.layer, op}).second) continue;
    layers[places.at(attribution.layers[place.layer].name)].problems.insert(ProblemLabel(network.model->ops[op]));
  }
  return layers;
}

// -1: nothing in common.
int Likeness(const Named& a, const Named& b) {
  int likeness = 0;
  if (!a.problems.empty() && a.problems == b.problems) likeness += 4;
  if (!a.type.empty() && a.type == b.type) likeness += 3;
  if (a.name == b.name) likeness += 1;
  return likeness == 0 ? -1 : likeness;
}

// Pairs of positions in the two orders that do not cross.
std::vector<std::pair<size_t, size_t>> Align(const std::vector<Named>& base, const std::vector<Named>& new_side) {
  const size_t width = new_side.size() + 1;
  std::vector<int> best((base.size() + 1) * width);
  for (size_t i = base.size(); i-- > 0;) {
    for (size_t j = new_side.size(); j-- > 0;) {
      const int skip = std::max(best[(i + 1) * width + j], best[i * width + j + 1]);
      const int likeness = Likeness(base[i], new_side[j]);
      best[i * width + j] = likeness < 0 ? skip : std::max(skip, best[(i + 1) * width + j + 1] + likeness);
    }
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0, j = 0; i < base.size() && j < new_side.size();) {
    const int here = best[i * width + j];
    if (here == best[(i + 1) * width + j]) {
      ++i;
    } else if (here == best[i * width + j + 1]) {
      ++j;
    } else {
      pairs.emplace_back(i++, j++);
    }
  }
  return pairs;
}

}  // namespace

NameMap MatchLayerNames(BaseSide<NetworkSide> base, NewSide<NetworkSide> new_side) {
  const std::vector<Named> before = NamedLayers(*base), after = NamedLayers(*new_side);
  NameMap names;
  if (before.size() > kMostLayers || after.size() > kMostLayers) return names;
  std::set<std::string> paired_before, paired_after, all_after;
  for (const auto& [i, j] : Align(before, after)) {
    paired_before.insert(before[i].name);
    paired_after.insert(after[j].name);
    if (before[i].name != after[j].name) names[before[i].name] = after[j].name;
  }
  for (const Named& layer : after) all_after.insert(layer.name);
  for (const Named& layer : before) {
    if (paired_before.contains(layer.name) || !all_after.contains(layer.name)) continue;
    // Moved to another position, or gone while another layer has its name.
    if (paired_after.contains(layer.name)) names[layer.name] = absl::StrCat("\x1e", layer.name);
  }
  return names;
}

}  // namespace dlhook::analyzer::diff
