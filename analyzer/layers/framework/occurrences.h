// Counts which repetition of a line's op within a forward pass a unit is: "block.py:17 conv2d #3".
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/layers/framework/torch_units.h"

namespace dlhook::analyzer::inline framework {

// By unit, from 0. A pass ends where backward nodes ran. So repetitions are known for ops with backward nodes; other
// passes over the same line and op (evaluation, recomputation) are counted modulo that number. A line that only runs
// without gradients, or that repeats too often for rows of its own, counts as one: 0. A module's own ops are counted
// separately for each of its calls in a pass, as far as its first submodule shows these.
std::vector<uint32_t> CountOccurrences(const TraceModel& model, const std::vector<PythonPlace>& places,
                                       const TorchUnits& units);

// Units of all threads, ordered by time.
std::vector<UnitIndex> UnitsByTime(const TraceModel& model, const TorchUnits& units);

}  // namespace dlhook::analyzer::framework
