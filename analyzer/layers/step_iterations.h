// Steps in the form of iterations, with what was called in them.
#ifndef DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_
#define DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_

#include "analyzer/layers/iterations.h"
#include "analyzer/layers/phases.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// One iteration a step, in the same order. Steady: regular steps of the track's main kind: training where there is any, else
// inference; all others but warm-up are kOther.
IterationTrack MeasureSteps(const TraceModel& model, const StepTrack& steps);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_STEP_ITERATIONS_H_
