// Which steps are of one sort, and their names.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_
#define DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_

#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Sets Step.sort and Step.is_regular in the tracks of one process. Steps are of one sort if they agree in kind,
// network, the program's own range around them ("train_step"; not "step 17") and size: batch and passes before the
// update. A size is a sort of its own if its steps come in a row, or are many; other sizes are irregular. If no size
// is frequent (sentences), and for requests, sizes are ignored.
// The name of the sort is what distinguishes its steps from others of their kind: "train_step, Net #2, batch 16".
void NameSteps(const TraceModel& model, std::vector<StepTrack>& tracks);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_NAMES_H_
