// Marks steps that are not yet like the others.
#ifndef DLHOOK_ANALYZER_STEPS_WARM_UP_H_
#define DLHOOK_ANALYZER_STEPS_WARM_UP_H_

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// For the steps of each name, marks the first ones while they create primitives, try algorithms, make more calls than
// any step of the later half (packing weights) or take more than 1.5 times as long as that half (at the same batch
// size, if there are enough). Irregular steps among them do not end the warm-up.
void MarkWarmUp(const TraceModel& model, StepTrack& track);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_WARM_UP_H_
