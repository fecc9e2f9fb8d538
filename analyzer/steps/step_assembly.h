// Combines items into steps, names them and marks warm-up.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"
#include "analyzer/steps/step_items.h"

namespace dlhook::analyzer::inline steps {

// Does not set warm-up, regularity and has_scopes. The rules:
// - a training step ends with the update of weights; without one, with the backward pass; with cuts, at these;
// - between the windows of a light tap an optimizer's steps alone tell training steps: each ends with as many of them as
//   those in windows have;
// - forward passes without a backward pass are validation steps in a program that trains, except for those with which
//   training steps begin (a teacher, pseudo-labels): FindStepBeginnings;
// - one pass of the trained network after the last step, if it is only a part of one or the recording ended in it, and
//   one or two before the first step, if none comes later, are no steps: they may be no validation;
// - updates that alternate (the two optimizers of a generator and a discriminator) form one step, and so do networks
//   that run alternately all the time (an ensemble whose members prepare the input themselves);
// - training steps last until the next step begins, so that nothing in between is lost; an inference step ends with its
//   own last activity: what follows is time between requests (time/thread_states.h: unless its thread computes there).
std::vector<Step> AssembleSteps(const TraceModel& model, const Attribution& attribution, const Moments& moments,
                                const std::vector<StepItem>& items, bool has_cuts);

// Where training steps begin: which runs without gradients belong to the step after them, and which are evaluation.

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

// Updates, or passes, that alternate: discriminator and generator, two models trained on one batch, an ensemble.
constexpr uint64_t kNoTurn = UINT64_MAX;  // not an update: ends a cycle

// For a sequence of updates, each identified by a number: the position of each in its cycle, 0 for the first of a cycle
// and for those in none. Empty: they do not alternate. A cycle has at most 8 updates of at least two kinds and covers
// nearly all of the sequence; one model after another (aaaabbbb) is not a cycle.
std::vector<size_t> FindTurns(const std::vector<uint64_t>& updates);

// For the steps of each name, marks the first ones while they create primitives, try algorithms, make more calls than
// any step of the later half (packing weights) or take more than 1.5 times as long as that half (at the same batch
// size, if there are enough). Irregular steps among them do not end the warm-up.
void MarkWarmUp(const TraceModel& model, StepTrack& track);

// Sets Step.sort and Step.is_regular in the tracks of one process. Steps are of one sort if they agree in kind,
// network, the program's own range around them ("train_step"; not "step 17") and size: batch and passes before the
// update. A size is a sort of its own if its steps come in a row, or are many; other sizes are irregular. If no size
// is frequent (sentences), and for requests, sizes are ignored.
// The name of the sort is what distinguishes its steps from others of their kind: "train_step, Net #2, batch 16".
void NameSteps(const TraceModel& model, std::vector<StepTrack>& tracks);

// What follows the last phase may extend beyond the window.
int64_t LastPhaseEnd(const Step& step);

// False for a bounded trace without steps of optimizers.
bool AreStepsKnownBetweenWindows(const TraceModel& model);

// Of XLA's operations nothing is known between windows, nor in a bounded trace without optimizers: what lasts from one into the
// next is no step, but many. If XLA's window also has the beginning of the next step, the last one before it ends there.
void LeaveOutPauses(const TraceModel& model, const ProcessMoments& moments, StepTrack* track);

}  // namespace dlhook::analyzer::steps
