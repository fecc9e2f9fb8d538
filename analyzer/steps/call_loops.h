// Loops inside of a layer: the same products again and again, image by image or step of a recurrence by step.
#ifndef DLHOOK_ANALYZER_STEPS_CALL_LOOPS_H_
#define DLHOOK_ANALYZER_STEPS_CALL_LOOPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/layers/op_facts.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline steps {

// For each of `calls` (matrix products of one thread, in order of time) the place in `calls` of the one that it
// repeats: that of the loop's first turn, else its own. A loop has equal ops in every turn; from turn to turn every operand
// stays where it is or moves on by a multiple of its size, always by the same, and some do either.
std::vector<uint32_t> LoopLeaders(const TraceModel& model, const std::vector<OpFacts>& facts,
                                  absl::Span<const CallIndex> calls);

// By CallIndex: repeats another call in a loop inside of a layer.
std::vector<bool> LoopRepeats(const TraceModel& model);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_CALL_LOOPS_H_
