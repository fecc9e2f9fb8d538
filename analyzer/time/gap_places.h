// Whose the time is in which a thread was between two calls or scopes and nothing is seen of it (ActivityKind::kNotSeen).
#ifndef DLHOOK_ANALYZER_TIME_GAP_PLACES_H_
#define DLHOOK_ANALYZER_TIME_GAP_PLACES_H_

#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

// What the row of such time is called that is of no layer.
inline constexpr char kNotSeen[] = "[not seen: native code or Python]";

// Layer.type of what torch.compile does while it compiles.
inline constexpr char kCompilation[] = "compilation";

// By stack: whether torch.compile is under way in it.
std::vector<bool> CompilerStacks(const TraceModel& model);

// The layer of compilation, which is added where there is none yet.
LayerIndex CompilationLayer(Attribution* attribution);

// Fills Attribution.of_gap, and adds a layer "MODULE:[not seen]" for each module that has such time and is no layer as a whole. A gap
// belongs to the calls of Python functions that go on from its one end to the other: those frames that both stacks have in common.
// Equal frames may be two calls of one function: then the gap ends where the second call begins, as it began when it was first called
// from outside. Such frames, and all inside of them, do not count; nor do those of modules where the line goes backwards (a loop in the
// module, or its next call). A gap with one end in a compilation is the compilation's. `with_modules` false: lines only.
void PlaceGaps(const TraceModel& model, bool with_modules, Attribution* attribution);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_GAP_PLACES_H_
