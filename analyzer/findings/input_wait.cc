// Rule input-wait: the step waits for its next batch.
//
// If the program loads data itself, all of the loading time counts; with worker processes, the time the program waits
// for them. Who was late is known from looks at those who prepare batches, while the program waits: they compute, have no
// processor, wait for files or the like, or wait for work themselves.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"
#include "analyzer/time/state_looks.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kInputWaitPercent = 5;  // "moderate" in XProf's input pipeline analysis

// What those who prepare batches did while the program waited for one.
struct Preparing {
  LookSums sums;
  int64_t threads = 0;
  // Workers wait for their next index in poll, or for a lock of their queue.
  int64_t WithoutWork() const { return Found(BlockedIn::kPoll) + Found(BlockedIn::kLock); }
  int64_t Found(BlockedIn place) const { return sums.found_ns[static_cast<size_t>(place)]; }
  bool IsKnown() const { return sums.BlockedOf(1).has_value(); }
  bool Mostly(int64_t ns) const { return 2 * ns > sums.running_ns + sums.queued_ns + sums.blocked_ns; }
};

IntervalSet InputTimes(const StepTrack& track) {
  std::vector<Interval> times;
  for (const Step& step : track.steps) {
    for (const PhaseInterval& phase : step.phases) {
      if (phase.kind == PhaseKind::kInput) times.push_back({phase.start_ns, phase.end_ns});
    }
  }
  return IntervalSet(std::move(times));
}

// The first threads of its worker processes, or its own first thread.
Preparing WhoPrepares(const StepFacts& facts, bool in_workers) {
  const std::vector<ThreadStates> threads = ReadThreadStates(facts.model());
  Preparing preparing;
  for (const StepTrack& track : facts.steps().tracks) {
    const IntervalSet times = InputTimes(track);
    const uint32_t pid = facts.model().processes[track.process].pid;
    for (const ThreadStates& states : threads) {
      const ProcessInfo& process = facts.model().processes[states.process];
      if (states.tid != process.pid || (in_workers ? process.parent_pid : process.pid) != pid) continue;
      const LookSums sums = LooksIn(states, times);
      preparing.sums.Add(sums);
      preparing.threads += sums.looks > 0 ? 1 : 0;
    }
  }
  return preparing;
}

// " Meanwhile its 2 workers computed 5 %, had no processor 2 %, were blocked 93 % (sleep)."
std::string WhatTheyDid(const Preparing& preparing, bool in_workers) {
  const LookSums& sums = preparing.sums;
  if (!preparing.IsKnown()) {
    return in_workers && preparing.threads == 0 ? " What the workers did meanwhile was not seen." : "";
  }
  const std::string blocked_in = BlockedInText(sums.found_ns);
  return absl::StrFormat(" Meanwhile %s computed %d %%, had no processor %d %%, %s blocked %d %%%s.",
                         !in_workers              ? "its thread"
                         : preparing.threads == 1 ? "its worker"
                                                  : absl::StrCat("its ", preparing.threads, " workers"),
                         100 - *sums.BlockedOf(100) - *sums.QueuedOf(100), *sums.QueuedOf(100),
                         preparing.threads == 1 ? "was" : "were", *sums.BlockedOf(100),
                         blocked_in.empty() ? "" : absl::StrCat(" (in ", blocked_in, ")"));
}

Finding InProgram(const StepFacts& facts, double ns, const Preparing& preparing) {
  const double compute_ns = std::max(facts.step_ns() - ns, 1.0);
  const double workers = std::ceil(ns / compute_ns);
  Finding finding;
  finding.sentence =
      absl::StrCat("The program prepares each batch itself before it computes: ", facts.PartOfStep(ns), ".");
  finding.gain_ns = ns;
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.advice = absl::StrFormat(
      "DataLoader(..., num_workers=%.0f, persistent_workers=True) prepares batches during the step, %s%s.", workers,
      preparing.IsKnown() && preparing.Mostly(preparing.sums.blocked_ns)
          ? "also without free processors: the program mostly waits for something else"
          : "if processors are free",
      facts.HasGpuTimes() ? "; pin_memory=True for copies to the GPU" : "");
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

// What helps depends on who was late.
std::string AdviceFor(const Preparing& workers) {
  if (!workers.IsKnown()) return "";
  if (workers.Mostly(workers.WithoutWork())) {
    return "The workers wait for work: more batches ahead (prefetch_factor), fewer or smaller copies of a batch on "
           "its way (collate_fn, pin_memory).";
  }
  if (workers.Mostly(workers.sums.blocked_ns)) {
    return "The workers wait for files, a network or a pause of their own: more workers (num_workers) help even "
           "without free processors; else data that is nearer.";
  }
  if (workers.Mostly(workers.sums.queued_ns)) {
    return "The workers have no processor: more of them do not help. Fewer threads beside them (OMP_NUM_THREADS), "
           "cheaper transforms, or data that was decoded before.";
  }
  return "";
}

}  // namespace

std::vector<Finding> FindInputWait(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};  // with a GPU only its idle time counts: gpu-idle
  const double waited_ns =
      facts.Sum([](const WorkItem& item) { return item.doing.activity == ActivityKind::kDataLoading; });
  const double ns = std::max(facts.PhaseNs(PhaseKind::kInput), waited_ns);
  if (!facts.IsAtLeast(ns, kInputWaitPercent)) return {};
  const bool in_workers = facts.counted().loaders.contains("in worker processes");
  const Preparing preparing = WhoPrepares(facts, in_workers);
  Finding finding = in_workers ? InWorkers(facts, ns) : InProgram(facts, ns, preparing);
  if (!facts.model().states.empty()) absl::StrAppend(&finding.sentence, WhatTheyDid(preparing, in_workers));
  if (const std::string advice = AdviceFor(preparing); in_workers && !advice.empty()) finding.advice = advice;
  finding.where = "input";
  finding.evidence = "table phases: input";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
