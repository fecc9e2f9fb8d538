// Layers from the framework's own links and from modules, that is, from the scopes that taps record.
#ifndef DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_
#define DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

Attribution AttributeByFramework(const TraceModel& model);

// JAX on the CPU: XLA calls oneDNN for slices of products on its own threads, without Python, and outside of the windows
// of its profiler nothing says which jitted function they belong to. Layers inferred from shapes and order alone are
// withdrawn for such calls, and the compiled region is reported as one. Calls inside a scope (XLA's operations in windows,
// its NVTX ranges on a GPU) stay with the scope.
void AttributeCompiledRegions(const TraceModel& model, Attribution* attribution);

}  // namespace dlhook::analyzer::framework

#endif  // DLHOOK_ANALYZER_LAYERS_FRAMEWORK_FRAMEWORK_LINKS_H_
