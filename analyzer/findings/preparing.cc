// Rule preparing-in-steps: warm-up work continues in steady steps: searching for algorithms, trials, creating
// primitives. Sizes that differ between them within a layer are what changes.

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/gemm_shape.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

// Not that cuBLASLt is asked for an algorithm: PyTorch does so before each product with a bias, whatever its sizes.
bool IsPreparing(const WorkItem& item) {
  if (!item.IsCall() || (item.op->is_creation && item.op->cache_hit)) return false;
  return item.op->is_creation || item.op->is_trial || (IsKind(*item.op, OpKind::kSearch) && item.op->gemm() == nullptr);
}

// By their usual names, those of a problem's input alone: those of the result follow from them.
std::map<std::string, int64_t> SizesOf(const Op& op) {
  std::map<std::string, int64_t> sizes;
  if (const auto shape = MatmulShapeOf(op)) return {{"m", shape->m}, {"n", shape->n}, {"k", shape->k}};
  const auto numbers = ParseProblemNumbers(op.problem);
  if (!numbers) return sizes;
  for (const auto& [name, word] :
       {std::pair("mb", "batch"), {"ic", "channels"}, {"id", "depth"}, {"ih", "height"}, {"iw", "width"}}) {
    if (const auto found = numbers->find(name); found != numbers->end()) sizes[word] = found->second;
  }
  return sizes;
}

// "height 17 to 56 (40 sizes), width 17 to 56 (40 sizes)"; empty: not known.
std::string WhatChanges(const StepFacts& facts) {
  using Place = std::tuple<const LayerGroup*, LayerDirection, std::string>;
  std::map<Place, std::map<std::string, std::set<int64_t>>> of_layers;
  for (const WorkItem& item : facts.items()) {
    if (!IsPreparing(item) || item.group->layers.empty()) continue;
    auto& seen = of_layers[{item.group, item.doing.direction, item.op->kind + item.op->subject}];
    for (const auto& [name, size] : SizesOf(*item.op)) seen[name].insert(size);
  }
  std::map<std::string, std::set<int64_t>> most;  // of the layer that has most of a name's
  for (const auto& [place, sizes] : of_layers) {
    for (const auto& [name, seen] : sizes) {
      if (seen.size() > most[name].size()) most[name] = seen;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, seen] : most) {
    if (seen.size() < 2) continue;
    texts.push_back(absl::StrFormat("%s %d to %d (%d sizes)", name, *seen.begin(), *seen.rbegin(), seen.size()));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace

std::vector<Finding> FindPreparing(const StepFacts& facts) {
  if (!facts.HasSteps()) return {};
  const double ns = facts.Sum(IsPreparing);
  if (!facts.IsAtLeast(ns, kLeastPercent)) return {};
  double calls = 0;
  std::set<std::string> problems;
  bool searches = false;
  for (const WorkItem& item : facts.items()) {
    if (!IsPreparing(item)) continue;
    calls += item.calls;
    problems.insert(item.op->problem);
    searches |= !item.op->is_creation;
  }
  Finding finding;
  finding.where = facts.LayersOf(IsPreparing);
  finding.sentence = absl::StrFormat("%s continues in steady steps, %.1f times per step for %d problems: %s.",
                                     searches ? "The search for algorithms" : "The preparation of primitives", calls,
                                     problems.size(), facts.PartOfStep(ns));
  if (const std::string changes = WhatChanges(facts); !changes.empty()) {
    absl::StrAppend(&finding.sentence, " In a layer change: ", changes, ".");
  }
  finding.gain_ns = ns;
  // Padding costs time, and a size that is new costs more than its preparation: in a test twice as much was gained.
  finding.basis = GainBasis::kMeasured;
  if (!searches) finding.confidence = Confidence::kLow;
  finding.evidence = "table tuning";
  finding.advice = searches ? "Changing shapes make cuDNN search again: pad or bucket the input to few sizes, or set "
                              "torch.backends.cudnn.benchmark = False."
                            : "Changing shapes make the library prepare again: pad or bucket the input to few sizes, "
                              "none much larger than it needs.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
