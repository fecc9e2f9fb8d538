// Times and counts of the calls of found steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// One for each step, in the same order. kSteady: regular steps of the track's main kind (training if there is any,
// else inference); all others except warm-up are kOther.
MeasuredTrack MeasureSteps(const TraceModel& model, const StepTrack& steps);

// Durations of those of the track's main kind that count, by StepName.
std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps);

}  // namespace dlhook::analyzer::steps
