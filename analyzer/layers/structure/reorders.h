// Tensors converted from one memory format to another, charged to the layer that needs it. Last stage of
// AttributeByStructure.
#ifndef DLHOOK_ANALYZER_LAYERS_STRUCTURE_REORDERS_H_
#define DLHOOK_ANALYZER_LAYERS_STRUCTURE_REORDERS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline structure {

// For each reorder in `calls` (of a track, in order of time) without a layer, by the ops before and after it on its
// thread: the next op if it takes a tensor of these dimensions in the format moved to (it is prepared), or else the
// op before if it has one in the format moved from (its result is taken back). Where both do, the op before, if the
// tensor goes from a format of the library's own back to a plain one or is a gradient of weights or biases. Where
// neither does, whichever has a tensor of these dimensions, the next op first. Layer and direction are those of that
// op. Returns how many stay without a layer.
int64_t ChargeReorders(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls,
                       std::vector<Place>& places);

}  // namespace dlhook::analyzer::structure

#endif  // DLHOOK_ANALYZER_LAYERS_STRUCTURE_REORDERS_H_
