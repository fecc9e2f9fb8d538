// Rule preparing-in-steps: warm-up work continues in steady steps: searching for algorithms, trials, creating
// primitives.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

bool IsPreparing(const WorkItem& item) {
  if (!item.IsCall() || (item.op->is_creation && item.op->cache_hit)) return false;
  return item.op->is_creation || item.op->is_trial || item.op->kind == "search";
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
  finding.sentence = absl::StrFormat("%s continues in steady steps, %.1f times a step for %d problems: %s.",
                                     searches ? "The search for algorithms" : "The preparation of primitives", calls,
                                     problems.size(), facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;  // padding, which the advice suggests, costs time, too
  if (!searches) finding.confidence = Confidence::kLow;
  finding.evidence = "table tuning";
  finding.advice = searches
                       ? "Shapes that change make cuDNN search again: pad or bucket the input to few sizes, or set "
                         "torch.backends.cudnn.benchmark = False."
                       : "Shapes that change make the library prepare again: pad or bucket the input to few sizes, "
                         "none much larger than it needs.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
