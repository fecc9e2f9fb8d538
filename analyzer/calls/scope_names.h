// What the names of scopes mean: op and kind of work.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

struct ScopeName {
  std::string op;                 // "conv2d" for "aten::conv2d"; of an optimizer "SGD"; of a compiled region its name
  bool is_view = false;           // returns a view of a tensor, or does nothing
  bool is_weighted = false;       // a main component of networks: convolution, product, recurrent cell, attention
  bool is_bookkeeping = false;    // creates, moves or reads tensors: not part of a network's function
  bool is_function = false;       // a torch.autograd.Function in Python: contains other ops
  bool is_layout_copy = false;    // contiguous: copies a tensor to another memory format
  bool is_communication = false;  // torch.distributed's: a collective operation, a message, a wait for one
  bool is_product = false;        // mm, addmm, bmm …: the backward pass of a product consists of these
};

// One element per name of the model.
std::vector<ScopeName> ReadScopeNames(const TraceModel& model);

// "convolution", "linear", "batch norm", "max pooling" …: the usual term for an op ("conv2d") or a module type
// ("Conv2d", without its package); without a usual term, the op's name with spaces.
std::string WorkOfOp(absl::string_view op);
std::string WorkOfModule(absl::string_view type);  // empty if the type says nothing

// "Conv2d" for "torch.nn.modules.conv.Conv2d".
std::string ShortType(absl::string_view type);

// The usual short name for a kind of work, for networks without module names: "conv", "fc", "relu", "pool".
std::string LiteratureName(absl::string_view work);

// Whether the backward node ("ConvolutionBackward0") belongs to the op ("aten::convolution").
bool NodeFitsOp(absl::string_view node, absl::string_view op);

// Collective operations that torch.distributed reports as ranges, of backends whose libraries have no hooks (Gloo, UCC):
// "gloo:all_reduce" -> kAllReduce; nullopt for other names. kUnknown: another operation of the backend.
std::optional<CollectiveKind> CollectiveOf(absl::string_view name);

// An operator of torch.distributed: "c10d::allreduce_", "_c10d_functional::wait_tensor".
bool IsDistributedOp(absl::string_view name);

// By name: whether its ranges are collective operations.
std::vector<bool> CollectiveNames(const TraceModel& model);

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
