// Loops inside a layer: the same products repeated image by image, or time step by time step.
#pragma once

#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline steps {

// For each of `calls` (matrix products of one thread, in order of time) the index in `calls` of the product that it
// repeats: that of the loop's first iteration, else its own. All iterations of a loop have equal ops, and from one to
// the next every operand stays in place or moves by a constant multiple of its size, and both kinds occur.
std::vector<uint32_t> LoopLeaders(const TraceModel& model, const std::vector<OpFacts>& facts,
                                  absl::Span<const CallIndex> calls);

// By CallIndex: whether the call repeats another one in a loop inside a layer.
std::vector<bool> LoopRepeats(const TraceModel& model);

}  // namespace dlhook::analyzer::steps
