// cuDNN's own description of a finalized plan: engine, knobs, notes, workspace.
// Thread: any application thread, while a plan is built; creates and destroys descriptors of the library. Holds no
// lock.
#pragma once

#include "preload/track/cudnn_nodes.h"

namespace dlhook::inline track {

// `real`: a function of the plan's library. Facts that it does not report stay as they were.
void AskPlan(const void* real, const void* plan, PlanFacts* facts);

}  // namespace dlhook::inline track
