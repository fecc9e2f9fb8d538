// Layers from the calls alone, by operands, shapes and order.
#ifndef DLHOOK_ANALYZER_LAYERS_STRUCTURE_STRUCTURE_H_
#define DLHOOK_ANALYZER_LAYERS_STRUCTURE_STRUCTURE_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline structure {

Attribution AttributeByStructure(const TraceModel& model);

}  // namespace dlhook::analyzer::structure

#endif  // DLHOOK_ANALYZER_LAYERS_STRUCTURE_STRUCTURE_H_
