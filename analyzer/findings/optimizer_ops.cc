// Rule optimizer-per-tensor: PyTorch's optimizer runs a dozen small operations per parameter instead of one fused
// operation.
//
// The gain: a fused Adam took 22 to 33 % of the default's time on the CPU, with 10 tensors of 16x16 to 8 of 1024x1024
// (torch 2.13, 2 cores; tests/bench/findings.py measures it again).

#include "absl/strings/str_format.h"
#include "analyzer/analysis/folded_time.h"
#include "analyzer/findings/own_cost.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kOptimizerOpsPercent = 3;
constexpr double kFusedPart = 0.33;           // upper bound of the time a fused step takes, relative to the default
constexpr double kOptimizerOpsLeastOps = 20;  // per update
constexpr std::array<const char*, 4> kCanBeFused = {"Adam", "AdamW", "SGD", "Adagrad"};

bool IsUpdate(const WorkItem& item) {
  return item.doing.direction == LayerDirection::kUpdate && item.doing.activity != ActivityKind::kWaiting;
}

}  // namespace

std::vector<Finding> FindSmallOptimizerOps(const StepFacts& facts) {
  if (facts.HasGpuTimes() || facts.steps().kind != StepKind::kTraining) return {};
  std::string optimizer;
  for (const std::string& name : facts.counted().optimizers) {
    for (const char* known : kCanBeFused) {
      if (name == known) optimizer = name;
    }
  }
  if (optimizer.empty() || facts.counted().optimizers.size() > 1) return {};
  const double ns = facts.Sum(IsUpdate);
  if (!facts.IsAtLeast((1 - kFusedPart) * ns, kOptimizerOpsPercent)) return {};
  double ops = 0;
  const Attribution& attribution = facts.attribution();
  const ScopeColumns& scopes = facts.model().scopes;
  bool is_fused = false;
  const FoldedTime& folded = FoldedTime::Of(facts.model(), *facts.options().analysis);
  for (ProcessIndex process = 0; process < facts.model().processes.size(); ++process) {
    folded.ForEachScope(process, [&](ScopeIndex scope, int64_t count) {
      if (attribution.of_scope[scope].direction != LayerDirection::kUpdate) return;
      const std::string& name = facts.model().names[scopes.look[scope].name];
      is_fused = is_fused || absl::StrContains(name, "_fused_");
      ops += absl::StartsWith(name, "aten::") ? static_cast<double>(count) : 0;
    });
  }
  if (is_fused) return {};
  int64_t updates = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    for (const Step& step : track.steps) updates += step.kind == StepKind::kTraining ? 1 : 0;
  }
  ops /= static_cast<double>(std::max<int64_t>(updates, 1));
  if (ops < kOptimizerOpsLeastOps) return {};
  Finding finding;
  finding.where = absl::StrCat("optimizer (", optimizer, ")");
  finding.sentence = absl::StrFormat("%s updates each tensor separately: about %.0f operations, %s.", optimizer, ops,
                                     facts.PartOfStep(ns));
  finding.gain_ns = (1 - kFusedPart) * ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table layers: optimizer; a fused update took a third of the time or less in trials";
  const double own_ns = CostOfScopes(
      facts, [&](ScopeIndex scope) { return attribution.of_scope[scope].direction == LayerDirection::kUpdate; });
  SubtractOwnCost((1 - kFusedPart) * own_ns, finding);
  if (!facts.IsAtLeast(finding.gain_ns, kOptimizerOpsPercent)) return {};
  finding.advice = absl::StrCat("torch.optim.", optimizer, "(..., fused=True)");
  return {finding};
}

}  // namespace dlhook::analyzer::findings
