// How many samples a step works on, as the shapes of its calls tell.
#ifndef DLHOOK_ANALYZER_LAYERS_BATCH_SIZE_H_
#define DLHOOK_ANALYZER_LAYERS_BATCH_SIZE_H_

#include <cstdint>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/phases.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// Fills Step.batch of a track where it is 0 and can be told:
// - the minibatch that the first convolution, pooling, norm … of the step names;
// - else the number of rows that all products of the first forward pass have in common. Where two numbers are common to all
//   (layers of equal width), there is one product only, or one of them does a convolution, it isn't known.
// With gradient accumulation that is the batch of one pass.
void SetBatchSizes(const TraceModel& model, const Attribution& attribution, StepTrack& track);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_BATCH_SIZE_H_
