// Layers from the framework's own links and from modules, that is, from the scopes that taps record.
#pragma once

#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline framework {

Attribution AttributeByFramework(const TraceModel& model);

// JAX on the CPU: XLA calls oneDNN for slices of products on its own threads, without Python, and outside of the windows
// of its profiler nothing says which jitted function they belong to. Layers inferred from shapes and order alone are
// withdrawn for such calls, and the compiled region is reported as one. Calls inside a scope (XLA's operations in windows,
// its NVTX ranges on a GPU) stay with the scope.
void AttributeCompiledRegions(const TraceModel& model, Attribution* attribution);

// The parts of AttributeByFramework, one per framework. Each sets the places of its scopes and adds its layers.
// PyTorch: modules, lines and sequence numbers. Comes first: fills Attribution::of_scope.
void LinkTorch(const TraceModel& model, const std::vector<ScopeName>& names, Attribution* attribution);
// TensorFlow: the paths of graph nodes. Adds its layers in network order as far as it shows: the executor runs nodes in
// any order, so a layer's first node (reading a variable) says nothing.
void LinkGraphNodes(const TraceModel& model, Attribution* attribution);

// By call, those that launch a kernel of Triton's: not where their scope is.
using LaunchPlaces = std::map<CallIndex, Place>;
// Compiled code: torch.compile's regions, XLA's modules by their NVTX ranges. Each is one layer with all its contents.
LaunchPlaces LinkCompiledRegions(const TraceModel& model, Attribution* attribution);

// What torch.compile kept of its work (TraceModel::compiled), by region, and the modules of the operators that compiled
// code calls.

// A region's code ran once: its forward pass in the scope "Torch-Compiled Region: 0/1", its backward pass in
// "CompiledFunctionBackward".
struct CompiledRun {
  ScopeIndex scope = 0;
  ScopeIndex forward = 0;  // the region's scope, also for a backward pass
  std::string region;      // "0/1"
  bool is_backward = false;
  int64_t graph = 0;  // of a backward pass: which of the region's graphs
};

// Gives operators, and with DLHOOK_COMPILED=modules the compiler's own loops, the places of their modules, where the compiler's
// own graphs show these and the operators of a run are those of the code, in its order. All others stay in their region. A loop
// over several modules is a layer with parts, by elements: of each operation of the graph that the loop computes, those of its
// largest operand or result. On GPUs loops are Triton's kernels, which are no scopes: the places of their launches, in runs that
// launch those of the code and no others (the first one may try several versions). `in_compiler`: by stack.
LaunchPlaces PlaceCompiledKernels(const TraceModel& model, const std::vector<CompiledRun>& runs,
                                  const std::vector<bool>& in_compiler, Attribution* attribution);

}  // namespace dlhook::analyzer::framework
