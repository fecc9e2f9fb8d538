// Rules about processors: processor-quota, machine-busy, too-many-threads, one-thread.
//
// The kernel counts how long the program's first thread was runnable without running (schedstat); the launcher samples
// the number of runnable threads on the machine.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kWaitPercent = 3;
constexpr double kOthersThreads = 0.5;   // mean number of running threads of other programs
constexpr double kAllOfThem = 0.85;      // of the processors; above this the program has the machine to itself
constexpr double kLongCallNs = 500'000;  // shorter calls may well be computed by one thread
constexpr double kLongCallsPercent = 30;

// Mean number of the run's running threads during its steps, over all its processes: a loader's workers belong to the
// program.
double OwnThreads(const StepFacts& facts) {
  const std::vector<StepTrack>& tracks = facts.steps().tracks;
  int64_t from_ns = std::numeric_limits<int64_t>::max(), to_ns = std::numeric_limits<int64_t>::min();
  for (const StepTrack& track : tracks) {
    if (track.steps.empty()) continue;
    from_ns = std::min(from_ns, track.steps.front().start_ns);
    to_ns = std::max(to_ns, track.steps.back().end_ns);
  }
  double threads = 0;
  const std::vector<LoadSample>& loads = facts.model().loads;  // by process, then time
  for (size_t i = 1; i < loads.size(); ++i) {
    if (loads[i].process != loads[i - 1].process || loads[i - 1].time_ns < from_ns || loads[i].time_ns > to_ns)
      continue;
    threads += static_cast<double>(loads[i].cpu_ns - loads[i - 1].cpu_ns) / static_cast<double>(to_ns - from_ns);
  }
  return threads;
}

uint32_t Allowed(const StepFacts& facts) {
  return facts.processors() > 0 ? facts.processors() : facts.load().processors;
}

// If there are more threads than processors, some wait, and no counter says whose. Then only processors count: those on
// which the program's threads do not run are used by others.
bool OthersAreBusy(const StepFacts& facts) {
  const double own = OwnThreads(facts);
  if (own >= kAllOfThem * Allowed(facts)) return false;
  return std::min<double>(facts.load().runnable, facts.load().processors) - own >= kOthersThreads;
}

// The run-queue wait includes the time in which a quota stops the thread. How much of that was this thread's is not
// known where several ran: at most all of it.
double StoppedNs(const StepFacts& facts) { return std::min(facts.load().throttled_ns, facts.load().waiting_ns); }
double WaitNs(const StepFacts& facts) { return facts.load().waiting_ns - StoppedNs(facts); }

bool WaitsForProcessors(const StepFacts& facts) {
  return facts.load().is_known && facts.HasSteps() && facts.IsAtLeast(WaitNs(facts), kWaitPercent);
}

std::string Wanted(const StepFacts& facts) {
  return absl::StrFormat("%.1f threads wanted %d processors, and this program's ran on %.1f of them",
                         facts.load().runnable, facts.load().processors, OwnThreads(facts));
}

Finding Waiting(const StepFacts& facts) {
  Finding finding;
  finding.gain_ns = std::min(WaitNs(facts), facts.step_ns());
  finding.sentence = absl::StrCat("The main thread waits for a processor: ", facts.PartOfStep(finding.gain_ns), "; ",
                                  Wanted(facts), ".");
  finding.evidence = "the kernel's run-queue wait of the thread (schedstat)";
  return finding;
}

}  // namespace

std::vector<Finding> FindProcessorQuota(const StepFacts& facts) {
  if (!facts.load().is_known || !facts.HasSteps() || !facts.IsAtLeast(StoppedNs(facts), kWaitPercent)) return {};
  Finding finding;
  finding.gain_ns = std::min(StoppedNs(facts), facts.step_ns());
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.sentence = absl::StrFormat(
      "The quota of processor time of the program's control group (container) is used up, and its threads are stopped: "
      "up to %s; they ran on %.1f processors.",
      facts.PartOfStep(finding.gain_ns), OwnThreads(facts));
  finding.evidence = "throttled time of the control group (cpu.stat), at most the thread's run-queue wait";
  finding.advice =
      "Raise the quota (docker --cpus, Kubernetes limits.cpu, cpu.max), or start no more threads than it pays for "
      "(OMP_NUM_THREADS, loader workers).";
  return {finding};
}

std::vector<Finding> FindBusyMachine(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || !OthersAreBusy(facts)) return {};
  Finding finding = Waiting(facts);
  finding.advice =
      "Other programs use the processors: stop them, or measure and train on processors of your own (taskset, "
      "cpusets). Times of this run are longer than the program's own.";
  return {finding};
}

std::vector<Finding> FindTooManyThreads(const StepFacts& facts) {
  if (!WaitsForProcessors(facts) || OthersAreBusy(facts)) return {};
  if (OwnThreads(facts) < kAllOfThem * Allowed(facts) || facts.load().runnable <= Allowed(facts)) return {};
  Finding finding = Waiting(facts);
  finding.advice = absl::StrFormat(
      "More threads than processors: OMP_NUM_THREADS=%d (torch.set_num_threads) or less, fewer loader workers.",
      std::max<uint32_t>(Allowed(facts), 1));
  return {finding};
}

std::vector<Finding> FindOneThread(const StepFacts& facts) {
  const uint32_t processors = facts.processors();
  const bool is_known = facts.load().is_known && facts.HasSteps() && facts.model().processes.size() == 1;
  if (!is_known || processors < 2 || OwnThreads(facts) > 1.15 || OthersAreBusy(facts)) return {};
  const auto is_long = [](const WorkItem& item) {
    return item.IsHostCompute() && item.calls > 0 && item.ns / item.calls >= kLongCallNs;
  };
  const double ns = facts.Sum(is_long);
  if (!facts.IsAtLeast(ns, kLongCallsPercent)) return {};
  std::string cause;
  for (const auto& [name, value] : facts.model().processes.front().settings) {
    if (value == "1" && name.find("NUM_THREADS") != std::string::npos) cause = absl::StrCat(name, "=1 is set");
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
