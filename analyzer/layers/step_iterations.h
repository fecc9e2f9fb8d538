// Steps in the form of iterations, with what was called in them.
#ifndef DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_
#define DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/layers/iterations.h"
#include "analyzer/layers/phases.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// One iteration a step, in the same order. Steady: regular steps of the track's main kind: training where there is any, else
// inference; all others but warm-up are kOther.
IterationTrack MeasureSteps(const TraceModel& model, const StepTrack& steps);

// How long the steady ones took, by StepName. Without the track's last step where there are others of its name: it is cut short.
std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps, const IterationTrack& measured);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_
