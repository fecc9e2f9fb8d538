// Steps that are not yet like the others.
#ifndef DLHOOK_ANALYZER_LAYERS_WARM_UP_H_
#define DLHOOK_ANALYZER_LAYERS_WARM_UP_H_

#include "analyzer/layers/phases.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// Marks, for each kind of step, the first ones, as long as they prepare primitives, try algorithms or take more than half as
// long again as the later half does (of the same batch, where there are enough). Odd ones among them don't end it.
void MarkWarmUp(const TraceModel& model, StepTrack& track);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_WARM_UP_H_
