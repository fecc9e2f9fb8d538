// The GPU work that steps ask for: it may end long after the host has asked for all of it.
#ifndef DLHOOK_ANALYZER_STEPS_ASKED_WORK_H_
#define DLHOOK_ANALYZER_STEPS_ASKED_WORK_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

struct AskedWork {
  int64_t end_ns = INT64_MIN;    // INT64_MIN: no GPU work is known
  int64_t asked_ns = INT64_MIN;  // of that which ends with the step; INT64_MIN: none does
};

// By step of the track.
std::vector<AskedWork> AskedWorkOf(const TraceModel& model, const StepTrack& track);

// Steps end with the host's last call. What the GPU does for them ends later where nothing waits for it: a step lasts
// until then, but not into the next one, and not where the GPU was still busy for the steps before.
void EndWithAskedWork(const TraceModel& model, StepTrack& track);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_ASKED_WORK_H_
