// Layers from the calls alone, by operands, shapes and order.
#pragma once

#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline structure {

Attribution AttributeByStructure(const TraceModel& model);

}  // namespace dlhook::analyzer::structure
