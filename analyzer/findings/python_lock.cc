// Rule python-lock: one thread runs Python at a time. Another thread of the program computes in Python, and the main thread waits
// for the interpreter's lock (the GIL), 5 ms each time by default, wherever it has left it.
//
// Seen are the waits: blocked in a lock between operations, or in a framework's op that goes back to Python; and a thread of the
// same process that runs meanwhile without any operation or call. A queue that this thread fills looks the same.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"
#include "analyzer/table/human.h"
#include "analyzer/time/state_looks.h"
#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLockPercent = 10;
constexpr double kRunsMeanwhile = 0.8;  // of the time in the lock

double InLockNs(const StepFacts& facts) {
  const auto& looks = facts.options().analysis->Derived<StateLooks>(facts.model());
  int64_t ns = 0;
  for (ProcessIndex process = 0; process < facts.model().processes.size(); ++process) {
    for (const StateLook& look : looks.Of(process)) {
      const bool may_be_python = look.piece.kind == ActivityKind::kNotSeen || look.piece.kind == ActivityKind::kScope;
      if (may_be_python && facts.StepAt(process, look.piece.start_ns) != kNone)
        ns += look.sums.found_ns[static_cast<size_t>(BlockedIn::kLock)];
    }
  }
  return static_cast<double>(ns) / facts.count();
}

struct Busiest {
  uint32_t tid = 0;
  double running_ns = 0;  // in a step
};

// Of the threads that make no calls, in the processes with steps.
Busiest BusiestWithoutCalls(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::vector<bool> has_calls(model.threads.size());
  facts.ForEachOperation([&](ThreadIndex thread, int64_t, int64_t) { has_calls[thread] = true; });
  Busiest busiest;
  for (const ThreadStates& states : ReadThreadStates(model)) {
    if (states.tid == 0 || states.tid == model.processes[states.process].pid) continue;
    if (states.thread != kNone && has_calls[states.thread]) continue;
    double running_ns = 0;
    for (const StepTrack& track : facts.steps().tracks) {
      if (track.process != states.process) continue;
      for (const Step& step : track.steps)
        running_ns += static_cast<double>(states.In({step.start_ns, step.end_ns}).running_ns) / facts.count();
    }
    if (running_ns > busiest.running_ns) busiest = {states.tid, running_ns};
  }
  return busiest;
}

}  // namespace

std::vector<Finding> FindPythonLock(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  if (!facts.HasSteps() || facts.HasGpuTimes() || model.states.empty() || model.python_stacks.empty()) return {};
  const double ns = InLockNs(facts);
  if (!facts.IsAtLeast(ns, kLockPercent)) return {};
  const Busiest busiest = BusiestWithoutCalls(facts);
  if (busiest.running_ns < kRunsMeanwhile * ns) return {};
  Finding finding;
  finding.gain_ns = std::min(ns, facts.step_ns());
  finding.sentence = absl::StrFormat(
      "The main thread waits for a lock between operations: %s. Thread %d of the same process computes %s meanwhile "
      "and "
      "calls no operation: one thread runs Python at a time (GIL).",
      facts.PartOfStep(finding.gain_ns), busiest.tid, HumanTime(busiest.running_ns));
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  finding.evidence = "table threads: what the main thread was blocked in, and the other thread's time running";
  finding.advice =
      absl::StrCat("Let a process do that thread's work (multiprocessing), or let it do less while steps run.",
                   model.samples.empty() ? " dlhook run --sample names its code." : " Its code: table hotspots.");
  return {finding};
}

}  // namespace dlhook::analyzer::findings
