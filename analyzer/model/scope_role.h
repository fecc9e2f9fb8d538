// What the name of a scope says: the same for all scopes with that name.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline model {

enum class ScopeRole : uint8_t {
  kOther,
  kFunction,       // no operator, so it may contain some: a Python autograd.Function (checkpointing is one), a range
  kConversion,     // of type, layout or device
  kEvaluate,       // autograd's engine around one backward node
  kAccumulate,     // adds a gradient to a parameter's gradient
  kGradientNode,   // TensorFlow's, for a gradient
  kOptimizerStep,  // Optimizer.step#SGD.step
  kZeroGrad,       // Optimizer.zero_grad#SGD.zero_grad
  kOptimizer,      // what else an optimizer does
  kTorchRegion,    // a run of a function that torch.compile compiled
  kCompiledCode,   // code of such a region
  kInput,          // the program asks its input pipeline for a batch
  kInputPipeline,  // a part of tf.data's
  kMessage,        // a send or receive of torch.distributed, from the call to the end of the wait for it
  kXla,            // XLA compiles, runs or tries something
  kProfilerStep    // torch.profiler's
};

ScopeRole RoleOfName(absl::string_view name);

inline bool IsOptimizer(ScopeRole role) {
  return role == ScopeRole::kOptimizerStep || role == ScopeRole::kZeroGrad || role == ScopeRole::kOptimizer;
}
inline bool IsCompiled(ScopeRole role) { return role == ScopeRole::kTorchRegion || role == ScopeRole::kCompiledCode; }

// "0/1" for "Torch-Compiled Region: 0/1", the frame and its recompilation; empty: it is no such scope.
absl::string_view TorchRegion(absl::string_view name);
// "AddmmBackward0" for "autograd::engine::evaluate_function: AddmmBackward0"; other names stay.
absl::string_view WithoutEngine(absl::string_view name);

inline constexpr absl::string_view kTorchRegionPrefix = "Torch-Compiled Region: ";
inline constexpr absl::string_view kCompiledFunction = "CompiledFunction";  // around the code of a region's graph

}  // namespace dlhook::analyzer::model
