// Phases by time: see phase_finder.h.
#include "analyzer/profile/phase_finder.h"

#include <algorithm>

namespace dlhook::analyzer::inline profiles {
namespace {

void SortByStart(std::vector<PhaseInterval>& phases) {
  std::sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
}

}  // namespace

PhaseFinder::PhaseFinder(const TraceModel& model, const std::vector<StepTrack>& tracks)
    : model_(model), of_process_(model.processes.size()), of_thread_(model.threads.size()) {
  for (const StepTrack& track : tracks) {
    std::vector<PhaseInterval>& phases = track.thread == kNone ? of_process_[track.process] : of_thread_[track.thread];
    for (const Step& step : track.steps) phases.insert(phases.end(), step.phases.begin(), step.phases.end());
  }
  for (std::vector<PhaseInterval>& phases : of_process_) SortByStart(phases);
  for (std::vector<PhaseInterval>& phases : of_thread_) SortByStart(phases);
}

PhaseKind PhaseFinder::Of(CallIndex call) const {
  const ThreadIndex thread = model_.calls.thread[call];
  const std::vector<PhaseInterval>& own = of_thread_[thread];
  const std::vector<PhaseInterval>& phases = own.empty() ? of_process_[model_.threads[thread].process] : own;
  const int64_t ns = model_.calls.start_ns[call];
  const auto after =
      std::upper_bound(phases.begin(), phases.end(), ns,
                       [](int64_t time_ns, const PhaseInterval& phase) { return time_ns < phase.start_ns; });
  if (after == phases.begin() || ns >= (after - 1)->end_ns) return PhaseKind::kUnknown;
  return (after - 1)->kind;
}

}  // namespace dlhook::analyzer::profiles
