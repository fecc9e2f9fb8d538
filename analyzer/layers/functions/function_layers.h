// Layers named after the framework function above their calls, if there are native stacks and no framework evidence.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline functions {

// `attribution`: the result of AttributeByStructure, from operands, shapes and order alone. Sets the type of each layer
// and whether calls are forward or backward; calls that the structure left open or could not distinguish (a single
// pass, two networks with equal shapes) become layers of their own. Layers with calls under the same function are
// distinguished as the structure did. Does nothing if no call was made in a known layer function.
void NameByFunctions(const TraceModel& model, Attribution* attribution);

}  // namespace dlhook::analyzer::functions
