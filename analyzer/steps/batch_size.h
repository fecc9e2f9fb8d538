// How many samples a step works on, as the shapes of its calls tell.
#ifndef DLHOOK_ANALYZER_STEPS_BATCH_SIZE_H_
#define DLHOOK_ANALYZER_STEPS_BATCH_SIZE_H_

#include <cstdint>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline steps {

// Fills Step.batch of a track where it is 0 and can be told:
// - the minibatch that the first convolution, pooling, norm … of the step names;
// - else the number of rows that all products of the first forward pass have in common, without those that do convolutions. Where it is
//   not known which side is rows (no framework's op makes them) and two numbers are common to all, or there is one product only, it
//   isn't known. Of sequences rows may be tokens.
// With gradient accumulation that is the batch of one pass.
void SetBatchSizes(const TraceModel& model, const Attribution& attribution, StepTrack& track);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_BATCH_SIZE_H_
