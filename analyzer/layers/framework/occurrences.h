// Which repetition of a line's op in one forward pass a unit is: "block.py:17 conv2d #3".
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_OCCURRENCES_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_OCCURRENCES_H_

#include <cstdint>
#include <vector>

#include "analyzer/layers/framework/torch_units.h"

namespace dlhook::analyzer::inline framework {

// By unit, counted from 0. A pass ends where backward nodes ran; so repetitions are known of ops that have backward nodes, and
// others of the same line and op (evaluation, recomputation) are counted round in the same number. A line that only runs
// without gradients, or repeats more often than anybody wants rows for, counts as one: 0.
// A module's own ops count anew where it is called again in one pass, as far as its first inner module shows that.
std::vector<uint32_t> CountOccurrences(const TraceModel& model, const std::vector<PythonPlace>& places,
                                       const TorchUnits& units);

// Units in the order of time, of all threads together.
std::vector<UnitIndex> UnitsByTime(const TraceModel& model, const TorchUnits& units);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_OCCURRENCES_H_
