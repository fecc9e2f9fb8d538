// Where training steps begin: which runs without gradients belong to the step after them, and which are evaluation.
#pragma once

#include "analyzer/steps/moments.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {

// The items of one training step, and of the time since the previous one.
struct TrainingItems {
  size_t begin = 0;
  size_t end = 0;
  size_t trained = 0;   // the first run whose gradients are computed (or the gradients, if no run was seen)
  uint64_t update = 0;  // signature of the update: equal for steps of one kind
};

// For each of `trainings`, in order: the item at which the step begins. Of the runs before the trained one it includes
// - those of other networks with which nearly all steps of its kind begin (a teacher), or which form one pass with it;
// - those of the trained network itself only if nearly all steps of its kind begin with them (pseudo-labels) and
//   nothing indicates evaluation: another batch size; a batch fetched between them and the training; the first step
//   lacks them and one follows the last step; or Python calls them from elsewhere: from another function than the one
//   that makes the step, or from a line after the update.
std::vector<size_t> FindStepBeginnings(const TraceModel& model, const Moments& moments,
                                       const std::vector<StepItem>& items, const std::vector<TrainingItems>& trainings);

// Which layers a run visited.
uint64_t SignatureOfRun(const StepItem& run);

}  // namespace dlhook::analyzer::steps
