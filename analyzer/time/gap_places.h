// Where a gap belongs, that is, the time between two calls or scopes of a thread about which nothing is known
// (ActivityKind::kNotSeen).
#pragma once

#include "analyzer/calls/python_places.h"
#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline time {

// The row for gaps without a layer.
inline constexpr char kNotSeen[] = "[not seen: native code or Python]";

// Layer.type of torch.compile's own work.
inline constexpr char kCompilation[] = "compilation";

// The layer of time between calls of a module: the module, or "MODULE:[not seen]" if it isn't a layer itself.
std::string LayerBetweenCalls(const std::vector<Layer>& layers, const ModuleName& module);

// By stack: whether torch.compile is compiling.
std::vector<bool> CompilerStacks(const TraceModel& model);

// The layer of compilation; adds it if necessary.
LayerIndex CompilationLayer(Attribution* attribution);

// The gaps of a run, and what the program does around them: all that does not depend on layers.
class FoundGaps;
std::shared_ptr<FoundGaps> FindGaps(const TraceModel& model);

// Sets Attribution.of_gap, and adds a layer "MODULE:[not seen]" for each module that has gaps and is not itself a
// layer. A gap belongs to the Python function calls that are active throughout it: the frames that the stacks before
// and after have in common. Equal frames may be two calls of one function; this is assumed if the gap ends the way the
// function began when it was first called from outside. Such frames, and everything inside them, do not count; nor do
// those of modules in which the line goes backwards (a loop in the module, or its next call). A gap with one end in a
// compilation belongs to the compilation. `with_modules` false: lines only.
void PlaceGaps(const TraceModel& model, FoundGaps& gaps, bool with_modules, Attribution* attribution);

}  // namespace dlhook::analyzer::time
