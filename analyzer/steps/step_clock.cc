// Maps time to steps: see step_clock.h.
#include "analyzer/steps/step_clock.h"

#include <algorithm>

namespace dlhook::analyzer::inline steps {

StepClock::StepClock(const TraceModel& model) : starts_(model.threads.size()) {
  for (const MeasuredTrack& track : FindStepsByCalls(model)) {
    steady_steps_ += track.Count(Phase::kSteady);
    for (size_t thread = 0; thread < model.threads.size(); ++thread) {
      if (model.threads[thread].process != track.process) continue;
      if (track.thread != kNone && track.thread != thread) continue;
      for (const MeasuredStep& step : track.steps) {
        starts_[thread].push_back({step.start_ns, step.phase == Phase::kSteady});
      }
    }
  }
}

size_t StepClock::At(ThreadIndex thread, int64_t ns) const {
  const std::vector<Start>& starts = starts_[thread];
  const auto begins_by_then = [&](size_t step) { return step < starts.size() && starts[step].ns <= ns; };
  for (const size_t step : {last_, last_ + 1}) {
    if (step > 0 && begins_by_then(step - 1) && !begins_by_then(step)) return last_ = step;
  }
  const auto after = std::upper_bound(starts.begin(), starts.end(), ns,
                                      [](int64_t moment_ns, const Start& start) { return moment_ns < start.ns; });
  return last_ = static_cast<size_t>(after - starts.begin());
}

bool StepClock::IsSteady(ThreadIndex thread, int64_t ns) const {
  const size_t step = At(thread, ns);
  return step > 0 && starts_[thread][step - 1].is_steady;
}

}  // namespace dlhook::analyzer::steps
