// Combines items into steps.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_
#define DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_

#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"
#include "analyzer/steps/phases.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {

// Does not set warm-up, regularity and has_scopes. The rules:
// - a training step ends with the update of weights; without one, with the backward pass; with cuts, at these;
// - forward passes without a backward pass are validation steps in a program that trains, except for those with which
//   training steps begin (a teacher, pseudo-labels): step_beginnings.h;
// - one pass of the trained network after the last step, if it is only a part of one or the recording ended in it, and
//   one or two before the first step, if none comes later, are no steps: they may be no validation;
// - updates that alternate (the two optimizers of a generator and a discriminator) form one step, and so do networks
//   that run alternately all the time (an ensemble whose members prepare the input themselves);
// - training steps last until the next step begins, so that nothing in between is lost; an inference step ends with its
//   own last activity: what follows is time between requests.
std::vector<Step> AssembleSteps(const TraceModel& model, const Attribution& attribution, const Moments& moments,
                                const std::vector<StepItem>& items, bool has_cuts);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_ASSEMBLY_H_
