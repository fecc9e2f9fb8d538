// How compiled functions are named, from what torch.compile kept (TraceModel::compiled).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// "forward"; "forward from line 8 on" for Dynamo's function torch_dynamo_resume_in_forward_at_8, which goes on after a
// graph break.
std::string CompiledFunctionName(absl::string_view function);

// Whether it goes on after a graph break.
bool IsResumed(const CompiledCode& code);

// The compiled function in which a scope with this name runs. Compilers number what they compile: "Torch-Compiled Region: 0/3"
// is the third recompilation of frame 0, "__inference_train_step_98" was traced from train_step, again if another number of
// it ran before.
struct CompiledRun {
  absl::string_view compiler;  // "torch.compile", "tf.function"; empty: the scope is no such run
  absl::string_view function;  // without its number
};
CompiledRun CompiledRunOf(absl::string_view scope);

// "net.py:8"; empty if not known.
std::string FileLine(const CompiledCode& code);

// The compilation of a region's forward pass; null: not known.
const CompiledCode* FindCompilation(const TraceModel& model, ProcessIndex process, absl::string_view region);

// Whether it is a run of a compiled function; not for kNone.
bool IsTorchRegion(const TraceModel& model, ScopeIndex scope);

// Whether it is the program's own code between two graphs of a function: none of the compiler's functions is above it.
bool IsBetweenGraphs(const TraceModel& model, ScopeIndex scope);

}  // namespace dlhook::analyzer::calls
