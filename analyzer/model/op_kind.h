// The kinds of ops that the analyzer distinguishes. Libraries have more, known by name alone (Op::kind).
#pragma once

#include <initializer_list>

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline model {

enum class OpKind : uint8_t {
  kAllocation,
  kAttention,
  kBatchNormalization,
  kCall,  // nothing but the function is known
  kCollective,
  kConvolution,
  kCopy,
  kDeconvolution,
  kEltwise,
  kFree,
  kGemm,
  kGemm3m,
  kGemmApi,
  kGemmCompute,
  kGemmt,
  kGemv,
  kGer,
  kInnerProduct,
  kKernel,  // a launch
  kMatmul,
  kMemset,
  kPooling,
  kReorder,
  kRnn,
  kSearch
};

absl::string_view OpKindName(OpKind kind);

inline bool IsKind(const Op& op, OpKind kind) { return op.kind == OpKindName(kind); }
bool IsKind(const Op& op, std::initializer_list<OpKind> kinds);  // any of them

// Inside calls of CUDA's, as an imported trace tells: the family of the recorder's own work, and the name of what waits until
// the GPU has done earlier work.
inline constexpr char kProfilerFamily[] = "profiler";
inline constexpr char kQueueIsFull[] = "Command Buffer Full";

}  // namespace dlhook::analyzer::model
