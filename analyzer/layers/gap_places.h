// Whose the time is in which a thread was between two calls or scopes and nothing is seen of it (ActivityKind::kNotSeen).
#ifndef DLHOOK_ANALYZER_LAYERS_GAP_PLACES_H_
#define DLHOOK_ANALYZER_LAYERS_GAP_PLACES_H_

#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// What the row of such time is called that is of no layer.
inline constexpr char kNotSeen[] = "[not seen: native code or Python]";

// Fills Attribution.of_gap, and adds a layer "MODULE:[not seen]" for each module that has such time and is no layer as a whole. A gap
// belongs to the calls of Python functions that go on from its one end to the other: those frames that both stacks have in common.
// Equal frames may be two calls of one function: then the gap ends where the second call begins, as it began when it was first called
// from outside. Such frames, and all inside of them, do not count; nor do those of modules where the line goes backwards (a loop in the
// module, or its next call). `with_modules` false: lines only.
void PlaceGaps(const TraceModel& model, bool with_modules, Attribution* attribution);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_LAYERS_GAP_PLACES_H_
