// Rule input-wait: the step waits for its next batch.
//
// If the program loads data itself, all of the loading time counts; with worker processes, the time the program waits
// for them.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kInputWaitPercent = 5;  // "moderate" in XProf's input pipeline analysis

Finding InProgram(const StepFacts& facts, double ns) {
  const double compute_ns = std::max(facts.step_ns() - ns, 1.0);
  const double workers = std::ceil(ns / compute_ns);
  Finding finding;
  finding.sentence =
      absl::StrCat("The program prepares each batch itself before it computes: ", facts.PartOfStep(ns), ".");
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.advice = absl::StrFormat(
      "DataLoader(..., num_workers=%.0f, persistent_workers=True) prepares batches during the step, if processors are "
      "free%s.",
      workers, facts.HasGpuTimes() ? "; pin_memory=True for copies to the GPU" : "");
  return finding;
}

Finding InWorkers(const StepFacts& facts, double ns) {
  Finding finding;
  finding.sentence = absl::StrCat("The program waits for its loader's workers: ", facts.PartOfStep(ns), ".");
  finding.gain_ns = ns;
  finding.advice =
      "More workers (num_workers) where processors are free, else cheaper transforms or data that was decoded before.";
  return finding;
}

}  // namespace

std::vector<Finding> FindInputWait(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};  // with a GPU only its idle time counts: gpu-idle
  const double waited_ns =
      facts.Sum([](const WorkItem& item) { return item.doing.activity == ActivityKind::kDataLoading; });
  const double ns = std::max(facts.PhaseNs(PhaseKind::kInput), waited_ns);
  if (!facts.IsAtLeast(ns, kInputWaitPercent)) return {};
  const bool in_workers = facts.counted().loaders.contains("in worker processes");
  Finding finding = in_workers ? InWorkers(facts, ns) : InProgram(facts, ns);
  finding.where = "input";
  finding.evidence = "table phases: input";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
