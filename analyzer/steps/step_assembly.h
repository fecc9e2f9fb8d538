// Items put together to steps.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_
#define DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_

#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"
#include "analyzer/steps/phases.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {

// Without warm-up, regularity and has_scopes. The rules:
// - a training step ends with the update of weights; where none is seen, with the backward pass; with cuts, at them;
// - forward passes of which no backward follows are validation steps in a program that trains, but for those that training steps
//   begin with (a teacher, pseudo-labels): step_beginnings.h;
// - updates that take turns (two optimizers, of a generator and a discriminator) are one step together, and so are networks
//   that run in turn all the time (an ensemble whose members prepare the input themselves);
// - training steps go on until the next step begins, so that nothing between them is lost; an inference step ends with its own
//   last activity: what follows is time between requests.
std::vector<Step> AssembleSteps(const TraceModel& model, const Attribution& attribution,
                                const std::vector<Moment>& moments, const std::vector<StepItem>& items, bool has_cuts);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_
