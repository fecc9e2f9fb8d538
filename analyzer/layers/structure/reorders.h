// Assigns conversions of tensors between memory formats to the layer that needs them. Last stage of
// AttributeByStructure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline structure {

// For each reorder in `calls` (of a track, in order of time) without a layer, looks at the ops before and after it on
// its thread: the next op, if it takes a tensor of these dimensions in the new format (the reorder prepares it), else
// the previous op, if it has one in the old format (the reorder converts its result back). If both match, the previous
// op, provided that the tensor goes from the library's own format back to a plain one or is a gradient of weights or
// biases. If neither matches, whichever has a tensor of these dimensions, the next op first. The reorder gets that op's
// layer and direction. Returns how many reorders remain without a layer.
int64_t ChargeReorders(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls,
                       std::vector<Place>& places);

}  // namespace dlhook::analyzer::structure
