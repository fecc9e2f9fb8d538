// Layers named by the framework function above their calls, where there are native stacks and no evidence of a
// framework.
#ifndef DLHOOK_ANALYZER_LAYERS_FUNCTIONS_FUNCTION_LAYERS_H_
#define DLHOOK_ANALYZER_LAYERS_FUNCTIONS_FUNCTION_LAYERS_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline functions {

// `attribution`: what operands, shapes and order alone show (AttributeByStructure). Says what kind of layer each one is
// and whether its calls are forward or backward; what the structure left open or could not know (the first and only
// pass, two networks of the same shapes) becomes layers of its own. Layers whose calls come under one function are told
// apart as the structure did. Changes nothing where no call was made under a known layer function.
void NameByFunctions(const TraceModel& model, Attribution* attribution);

}  // namespace dlhook::analyzer::functions

#endif  // DLHOOK_ANALYZER_LAYERS_FUNCTIONS_FUNCTION_LAYERS_H_
