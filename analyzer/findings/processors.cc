// Rules about processors: machine-busy, too-many-threads, one-thread.
//
// The kernel counts how long the program's first thread could have run and had no processor (schedstat); the launcher samples how many
// threads of the machine wanted one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kWaitPercent = 3;
constexpr double kOthersThreads = 0.5;   // runnable threads of other programs, mean
constexpr double kLongCallNs = 500'000;  // calls that are shorter may well be computed by one thread
constexpr double kLongCallsPercent = 30;

// Threads of the program that ran, mean.
double OwnThreads(const StepFacts& facts) { return facts.load().cpu_ns / facts.step_ns(); }
double OtherThreads(const StepFacts& facts) { return std::max(facts.load().runnable - OwnThreads(facts), 0.0); }

bool WaitsForProcessors(const StepFacts& facts) {
  return facts.load().is_known && facts.HasSteps() && facts.IsAtLeast(facts.load().waiting_ns, kWaitPercent);
}

std::string Wanted(const StepFacts& facts) {
  return absl::StrFormat("%.1f threads wanted %d processors, %.1f of them this program's", facts.load().runnable,
                         facts.load().processors, OwnThreads(facts));
}

Finding Waiting(const StepFacts& facts) {
  Finding finding;
  finding.gain_ns = std::min(facts.load().waiting_ns, facts.step_ns());
  finding.sentence = absl::StrCat("The main thread waits for a processor: ", facts.PartOfStep(finding.gain_ns), "; ",
                                  Wanted(facts), ".");
  finding.evidence = "the kernel's run-queue wait of the thread (schedstat)";
  return finding;
}

}  // namespace

std::vector<Finding> FindBusyMachine(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || OtherThreads(facts) < kOthersThreads) return {};
  Finding finding = Waiting(facts);
  finding.advice =
      "Other programs use the processors: stop them, or measure and train on processors of your own (taskset, "
      "cpusets). Times of this run are longer than the program's own.";
  return {finding};
}

std::vector<Finding> FindTooManyThreads(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || OtherThreads(facts) >= kOthersThreads) return {};
  if (facts.load().threads <= facts.load().processors) return {};
  Finding finding = Waiting(facts);
  finding.advice = absl::StrFormat(
      "%d threads share %d processors: fewer of them, OMP_NUM_THREADS=%d (torch.set_num_threads), fewer loader "
      "workers.",
      facts.load().threads, facts.load().processors, std::max<uint32_t>(facts.load().processors, 1));
  return {finding};
}

std::vector<Finding> FindOneThread(const StepFacts& facts) {
  const uint32_t processors = facts.processors();
  const bool is_known = facts.load().is_known && facts.HasSteps() && facts.model().processes.size() == 1;
  if (!is_known || processors < 2 || OwnThreads(facts) > 1.15 || OtherThreads(facts) >= kOthersThreads) return {};
  const auto is_long = [](const WorkItem& item) {
    return item.IsHostCompute() && item.calls > 0 && item.ns / item.calls >= kLongCallNs;
  };
  const double ns = facts.Sum(is_long);
  if (!facts.IsAtLeast(ns, kLongCallsPercent)) return {};
  std::string cause;
  for (const auto& setting : facts.model().processes.front().header.setting()) {
    if (setting.value() == "1" && absl::string_view(setting.name()).find("NUM_THREADS") != absl::string_view::npos) {
      cause = absl::StrCat(setting.name(), "=1 is set");
    }
  }
  Finding finding;
  finding.where = facts.LayersOf(is_long);
  finding.sentence =
      absl::StrFormat("One thread computes while %d processors are there: %s in calls of 0.5 ms and more.", processors,
                      facts.PartOfStep(ns));
  finding.gain_ns = ns * (1 - 1.0 / processors);
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence =
      absl::StrFormat("%.2f threads ran on average; time / %d processors", OwnThreads(facts), processors);
  finding.advice =
      absl::StrCat(cause, cause.empty() ? "Let" : ": let",
                   " the library use more threads: OMP_NUM_THREADS=", processors, " (torch.set_num_threads).");
  return {finding};
}

}  // namespace dlhook::analyzer::findings
