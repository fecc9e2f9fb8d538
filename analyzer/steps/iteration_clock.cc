// Maps time to iterations: see iteration_clock.h.
#include "analyzer/steps/iteration_clock.h"

#include <algorithm>

namespace dlhook::analyzer::inline steps {

IterationClock::IterationClock(const TraceModel& model) : starts_(model.threads.size()) {
  for (const IterationTrack& track : FindIterations(model)) {
    steady_iterations_ += track.Count(Phase::kSteady);
    for (size_t thread = 0; thread < model.threads.size(); ++thread) {
      if (model.threads[thread].process != track.process) continue;
      if (track.thread != kNone && track.thread != thread) continue;
      for (const Iteration& iteration : track.iterations) {
        starts_[thread].push_back({iteration.start_ns, iteration.phase == Phase::kSteady});
      }
    }
  }
}

size_t IterationClock::At(ThreadIndex thread, int64_t ns) const {
  const std::vector<Start>& starts = starts_[thread];
  const auto after = std::upper_bound(starts.begin(), starts.end(), ns,
                                      [](int64_t moment_ns, const Start& start) { return moment_ns < start.ns; });
  return static_cast<size_t>(after - starts.begin());
}

bool IterationClock::IsSteady(ThreadIndex thread, int64_t ns) const {
  const size_t iteration = At(thread, ns);
  return iteration > 0 && starts_[thread][iteration - 1].is_steady;
}

}  // namespace dlhook::analyzer::steps
