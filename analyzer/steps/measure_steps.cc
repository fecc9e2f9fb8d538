// Measures steps: see measure_steps.h.
#include "analyzer/steps/measure_steps.h"

#include <algorithm>

namespace dlhook::analyzer::inline steps {
namespace {

StepKind MainKind(const StepTrack& track) {
  for (StepKind kind : {StepKind::kTraining, StepKind::kInference}) {
    const bool any =
        std::any_of(track.steps.begin(), track.steps.end(), [&](const Step& step) { return step.kind == kind; });
    if (any) return kind;
  }
  return StepKind::kUnknown;
}

Phase PhaseOf(const Step& step, StepKind main_kind) {
  if (step.is_warm_up) return Phase::kWarmUp;
  return step.kind == main_kind && step.is_regular ? Phase::kSteady : Phase::kOther;
}

}  // namespace

MeasuredTrack MeasureSteps(const TraceModel& model, const StepTrack& steps) {
  MeasuredTrack track;
  track.process = steps.process;
  track.thread = steps.thread;
  track.by_kind_only = steps.by_kind_only;
  const StepKind main_kind = MainKind(steps);
  track.steps.reserve(steps.steps.size());
  for (const Step& step : steps.steps) {
    MeasuredStep measured_step;
    measured_step.start_ns = step.start_ns;
    measured_step.end_ns = step.end_ns;
    measured_step.phase = PhaseOf(step, main_kind);
    track.steps.push_back(measured_step);
  }
  MeasureTrack(model, track);
  return track;
}

std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps) {
  std::map<std::string, std::vector<int64_t>> durations;
  const StepKind main_kind = MainKind(steps);
  for (const Step& step : steps.steps) {
    if (step.kind != main_kind || !step.counts()) continue;
    durations[StepName(step.kind, step.sort)].push_back(step.end_ns - step.start_ns);
  }
  return durations;
}

}  // namespace dlhook::analyzer::steps
