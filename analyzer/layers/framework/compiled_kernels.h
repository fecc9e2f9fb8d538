// What torch.compile kept of its work (TraceModel::compiled), by region, and the modules of the operators that compiled
// code calls.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline framework {

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
