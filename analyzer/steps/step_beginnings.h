// Where training steps begin: which runs without gradients are a part of the step behind them, and which are evaluation.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_BEGINNINGS_H_
#define DLHOOK_ANALYZER_STEPS_STEP_BEGINNINGS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/moments.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {

// Items of one training step, and what was done since the step before it.
struct TrainingItems {
  size_t begin = 0;
  size_t end = 0;
  size_t trained = 0;   // the first run of which gradients are computed (or these, where no run was seen)
  uint64_t update = 0;  // signature of the update: steps with equal ones are of one kind
};

// For each of `trainings`, in order: the item at which the step begins. What it takes in of the runs before the trained one:
// - those of other networks with which nearly all steps of its kind begin (a teacher), or which are one pass with it;
// - those of the trained network itself only if nearly all steps of its kind begin with them (pseudo-labels) and nothing says that
//   they evaluate it: another batch size; a batch that was fetched between them and the training; the first step does without and
//   the last one is followed by one; or Python calls them from elsewhere: not from the function in which the step is made, or from a
//   line behind the update.
std::vector<size_t> FindStepBeginnings(const TraceModel& model, const std::vector<Moment>& moments,
                                       const std::vector<StepItem>& items, const std::vector<TrainingItems>& trainings);

// Which layers a run went through.
uint64_t SignatureOfRun(const StepItem& run);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_BEGINNINGS_H_
