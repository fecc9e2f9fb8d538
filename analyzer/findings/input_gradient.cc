// Rule input-gradient: the first layer of a network computes the gradient of the network's input, which nothing trains on.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

// The first layer of each network that computes in a library.
std::vector<LayerIndex> FirstLayers(const StepFacts& facts) {
  std::map<std::string, LayerIndex> first;
  for (const WorkItem& item : facts.items()) {
    if (item.doing.direction != LayerDirection::kForward) continue;
    for (LayerIndex layer : item.group->layers) {
      const auto [known, is_new] = first.try_emplace(facts.attribution().layers[layer].model, layer);
      if (!is_new) known->second = std::min(known->second, layer);
    }
  }
  std::vector<LayerIndex> layers;
  for (const auto& [model, layer] : first) layers.push_back(layer);
  return layers;
}

}  // namespace

std::vector<Finding> FindInputGradient(const StepFacts& facts) {
  if (facts.steps().kind != IterationKind::kTraining) return {};
  std::vector<Finding> findings;
  for (LayerIndex layer : FirstLayers(facts)) {
    const auto is_wasted = [&](const WorkItem& item) {
      return item.IsHostCompute() && item.doing.direction == LayerDirection::kBackwardData &&
             item.group->layers.size() == 1 && item.group->layers.front() == layer;
    };
    const double ns = facts.Sum(is_wasted);
    if (!facts.IsAtLeast(ns, kLeastPercent)) continue;
    const Layer& first = facts.attribution().layers[layer];
    Finding finding;
    finding.where = first.name;
    finding.line = first.line;
    finding.sentence =
        absl::StrCat("The gradient of the network's input is computed in the first layer: ", facts.PartOfStep(ns), ".");
    finding.gain_ns = ns;
    finding.confidence = Confidence::kMedium;
    finding.evidence = "table layers, column backward_data of the first row";
    finding.advice =
        "If nothing reads it (no adversarial or saliency method): leave requires_grad of the input at False, and "
        "detach "
        "what comes out of a frozen part: x = x.detach().";
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
