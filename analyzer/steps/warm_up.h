// Steps that are not yet like the others.
#ifndef DLHOOK_ANALYZER_STEPS_WARM_UP_H_
#define DLHOOK_ANALYZER_STEPS_WARM_UP_H_

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Marks, of the steps of each name, the first ones, as long as they prepare primitives, try algorithms, make more
// calls than any of the later half (which pack weights) or take more than half as
// long again as the later half does (of the same batch, where there are enough). Odd ones among them don't end it.
void MarkWarmUp(const TraceModel& model, StepTrack& track);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_WARM_UP_H_
