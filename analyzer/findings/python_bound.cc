// Rule python-bound: between the operations it asks for, Python takes a large part of the step.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPercent = 20;
constexpr double kLeastOps = 20;        // of the framework, in a step
constexpr double kShortOpNs = 100'000;  // mean time from one op to the next: longer gaps are not the price of asking

}  // namespace

std::vector<Finding> FindPythonBound(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  double ops = 0;
  for (const auto& [name, count] : facts.counted().ops) ops += count;
  // Python of the optimizer is optimizer-per-tensor's.
  const auto is_python = [](const WorkItem& item) {
    return item.doing.activity == ActivityKind::kNotSeen && item.doing.direction != LayerDirection::kUpdate;
  };
  const double ns = facts.Sum(is_python);
  if (ops < kLeastOps || ns / ops > kShortOpNs || !facts.IsAtLeast(ns, kPercent)) return {};
  Finding finding;
  finding.where = facts.LayersOf(is_python);
  finding.sentence = absl::StrFormat("Python between %.0f small operations takes %s.", ops, facts.PartOfStep(ns));
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table accounting: rows \"not seen\", with the lines they lie between";
  finding.advice = facts.UsesTorch()
                       ? "A larger batch, or torch.compile(model), makes fewer and larger operations."
                       : "Ask for more at once: a larger batch, whole arrays instead of loops over elements.";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
