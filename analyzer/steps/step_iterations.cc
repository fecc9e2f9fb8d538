// Steps as iterations: see step_iterations.h.
#include "analyzer/steps/step_iterations.h"

#include <algorithm>

namespace dlhook::analyzer::inline steps {
namespace {

IterationKind MainKind(const StepTrack& track) {
  for (IterationKind kind : {IterationKind::kTraining, IterationKind::kInference}) {
    const bool any =
        std::any_of(track.steps.begin(), track.steps.end(), [&](const Step& step) { return step.kind == kind; });
    if (any) return kind;
  }
  return IterationKind::kUnknown;
}

Phase PhaseOf(const Step& step, IterationKind main_kind) {
  if (step.is_warm_up) return Phase::kWarmUp;
  return step.kind == main_kind && step.is_regular ? Phase::kSteady : Phase::kOther;
}

}  // namespace

IterationTrack MeasureSteps(const TraceModel& model, const StepTrack& steps) {
  IterationTrack track;
  track.process = steps.process;
  track.thread = steps.thread;
  track.by_kind_only = steps.by_kind_only;
  const IterationKind main_kind = MainKind(steps);
  for (const Step& step : steps.steps) {
    Iteration iteration;
    iteration.start_ns = step.start_ns;
    iteration.end_ns = step.end_ns;
    iteration.phase = PhaseOf(step, main_kind);
    track.iterations.push_back(iteration);
  }
  MeasureIterations(model, track);
  return track;
}

std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps, const IterationTrack& measured) {
  std::map<std::string, std::vector<int64_t>> durations;
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    if (measured.iterations[i].phase != Phase::kSteady) continue;
    std::vector<int64_t>& of_name = durations[StepName(steps.steps[i].kind, steps.steps[i].sort)];
    if (i + 1 < steps.steps.size() || of_name.empty()) of_name.push_back(measured.iterations[i].duration_ns());
  }
  return durations;
}

}  // namespace dlhook::analyzer::steps
