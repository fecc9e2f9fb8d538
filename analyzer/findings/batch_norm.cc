// Rule batch-norm-in-inference: batch normalization runs by itself where its factors are constants, which could be
// multiplied into the weights of the convolution or product before it.
//
// Rule input-gradient: the first layer of a network computes the gradient of the network's input, which nothing uses.
//
// Only the first layer of a step is judged: the input of a later network may be the output of another one and then
// needs its gradient, as when a generator learns from its critic. Nor does a layer count that runs several times in a pass: a
// recurrent cell's gradient is that of its state.

#include "analyzer/findings/rules.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kBatchNormPercent = 3;

bool IsBatchNorm(const WorkItem& item) {
  if (item.IsCall()) return IsKind(*item.op, OpKind::kBatchNormalization);
  return item.scope != nullptr && WorkOfOp(item.scope->op) == "batch norm";
}

// The layer that begins a step's forward passes; kNone if not known.
LayerIndex FirstLayer(const StepFacts& facts) {
  LayerIndex first = kNone;
  for (const WorkItem& item : facts.items()) {
    if (item.doing.direction != LayerDirection::kForward) continue;
    for (LayerIndex layer : item.group->layers) first = std::min(first, layer);
  }
  // Without modules, a layer is a line of the program; a line in a loop also includes later layers.
  return first == kNone || facts.attribution().layers[first].module.empty() ? kNone : first;
}

// Or computes several products, as attention does, some of which need the gradients of others' results.
bool RunsSeveralTimes(const StepFacts& facts, LayerIndex layer) {
  double calls = 0;
  for (const WorkItem& item : facts.items()) {
    const bool is_its = item.IsHostCompute() && item.doing.direction == LayerDirection::kForward &&
                        item.group->layers.size() == 1 && item.group->layers.front() == layer;
    if (is_its && !IsKind(*item.op, OpKind::kReorder)) calls += item.calls;
  }
  return calls > 1.5 * static_cast<double>(std::max<int64_t>(facts.counted().micro_steps, 1));
}

}  // namespace

std::vector<Finding> FindBatchNormInInference(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kInference || !facts.UsesTorch()) return {};
  const double ns = facts.Sum(IsBatchNorm);
  if (!facts.IsAtLeast(ns, kBatchNormPercent)) return {};
  return {
      {.where = facts.LayersOf(IsBatchNorm),
       .sentence =
           absl::StrCat("Batch normalization runs as a separate operation in inference: ", facts.PartOfStep(ns), "."),
       .gain_ns = ns,
       .basis = GainBasis::kComputed,
       .evidence = "table layers: batch norm. The gain is its time where it directly follows a convolution or product",
       .advice = "Fold it into the preceding convolution once: torch.nn.utils.fusion.fuse_conv_bn_eval, or "
                 "torch.jit.optimize_for_inference(torch.jit.trace(model, example))."}};
}

std::vector<Finding> FindInputGradient(const StepFacts& facts) {
  if (facts.steps().kind != StepKind::kTraining) return {};
  const LayerIndex layer = FirstLayer(facts);
  if (layer == kNone || RunsSeveralTimes(facts, layer)) return {};
  // A gradient penalty reads it: gradients of gradients are computed.
  const auto is_second = [](const auto& op) { return absl::StrContains(op.first, "BackwardBackward"); };
  if (absl::c_any_of(facts.counted().ops, is_second)) return {};
  const auto is_wasted = [&](const WorkItem& item) {
    return item.IsHostCompute() && item.doing.direction == LayerDirection::kBackwardData &&
           item.group->layers.size() == 1 && item.group->layers.front() == layer;
  };
  const double ns = facts.Sum(is_wasted);
  if (!facts.IsAtLeast(ns, kLeastPercent)) return {};
  return {{.where = facts.attribution().NameOf(layer),
           .line = facts.attribution().layers[layer].line,
           .sentence = absl::StrCat(
               "The first layer computes the gradient of the network's input: ", facts.PartOfStep(ns), "."),
           .gain_ns = ns,
           .basis = GainBasis::kMeasured,
           .evidence = "table layers, column backward_data of the first row",
           .advice = "If nothing reads it (no adversarial or saliency method), leave requires_grad of the input False, "
                     "and detach what comes out of a frozen part: x = x.detach()."}};
}

}  // namespace dlhook::analyzer::findings
