// Which steps are alike, and what they are called.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_
#define DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_

#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Fills Step.sort and Step.is_regular of the tracks of one process. Steps are alike that are of one kind, one network, one range of the
// program's own ("train_step"), and one size: batch and passes before the update. A size stands for itself where steps of it follow each
// other, or are many; others are irregular. Where no size is frequent (sentences) and of requests, which come as they come, all
// together are alike.
// The sort is whatever tells steps from others of their kind: "train_step, Net #2, batch 16".
void NameSteps(const TraceModel& model, std::vector<StepTrack>& tracks);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_
