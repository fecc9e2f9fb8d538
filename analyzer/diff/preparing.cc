// See preparing.h.
#include "analyzer/diff/preparing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dlhook::analyzer::inline diff {
namespace {

IntervalSet InputTimes(const StepTrack& track) {
  std::vector<Interval> times;
  for (const Step& step : track.steps) {
    for (const PhaseInterval& phase : step.phases) {
      if (phase.kind == PhaseKind::kInput) times.push_back({phase.start_ns, phase.end_ns});
    }
  }
  return IntervalSet(std::move(times));
}

}  // namespace

std::string LooksText(const LookSums& looks, const char* verb) {
  const std::optional<int64_t> blocked = looks.BlockedOf(100), queued = looks.QueuedOf(100);
  if (!blocked) return "";
  const std::string in = BlockedInText(looks.found_ns);
  return absl::StrFormat("computed %d %%, had no processor %d %%, %s blocked %d %%%s", 100 - *blocked - *queued,
                         *queued, verb, *blocked, in.empty() ? "" : absl::StrCat(" (in ", in, ")"));
}

std::string Preparing::Text() const {
  const std::string did = LooksText(looks, in_workers && threads > 1 ? "were" : "was");
  if (did.empty()) return "";
  const std::string who = !in_workers    ? "its thread"
                          : threads == 1 ? "its worker"
                                         : absl::StrCat("its ", threads, " workers");
  return absl::StrCat(who, " ", did);
}

void Preparing::Add(const Preparing& other) {
  looks.Add(other.looks);
  threads = std::max(threads, other.threads);
  in_workers |= other.in_workers;
}

Preparing WhoPrepares(const TraceModel& model, const ComparedSteps& steps, bool in_workers) {
  Preparing preparing;
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  for (const StepTrack& track : steps.tracks) {
    const IntervalSet times = InputTimes(track);
    const uint32_t pid = model.processes[track.process].pid;
    Preparing own{.in_workers = in_workers};
    for (const ThreadStates& states : threads) {
      const ProcessInfo& process = model.processes[states.process];
      if (states.tid != process.pid || (in_workers ? process.parent_pid : process.pid) != pid) continue;
      const LookSums looks = LooksIn(states, times);
      own.looks.Add(looks);
      own.threads += looks.looks > 0 ? 1 : 0;
    }
    preparing.Add(own);
  }
  return preparing;
}

}  // namespace dlhook::analyzer::diff
