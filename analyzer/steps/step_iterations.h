// Steps in the form of iterations, with what was called in them.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_ITERATIONS_H_
#define DLHOOK_ANALYZER_STEPS_STEP_ITERATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/iterations.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// One iteration a step, in the same order. Steady: regular steps of the track's main kind: training where there is any, else
// inference; all others but warm-up are kOther.
IterationTrack MeasureSteps(const TraceModel& model, const StepTrack& steps);

// How long the steady ones took, by StepName. Without the track's last step where there are others of its name: it is cut short.
std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps, const IterationTrack& measured);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_ITERATIONS_H_
