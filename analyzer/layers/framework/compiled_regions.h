// Calls of code that a compiler made and of which nothing more is told: one region instead of layers.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_COMPILED_REGIONS_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_COMPILED_REGIONS_H_

#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline framework {

// JAX on the CPU: XLA calls oneDNN on threads of its own, where no Python runs, for slices of products, and tells nobody
// which jitted function they belong to (its TraceMe events can't be reached from outside). Layers that were found in such
// calls by shapes and order alone are taken back: what is one compiled region is reported as one. Calls inside a scope
// (the NVTX ranges of XLA on a GPU) stay where the scope put them.
void AttributeCompiledRegions(const TraceModel& model, Attribution* attribution);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_COMPILED_REGIONS_H_
