#include "analyzer/calls/call_context.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline calls {
namespace {

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

}  // namespace

bool IsLibraryOp(const Op& op) {
  return !IsKind(op,
                 {OpKind::kKernel, OpKind::kCopy, OpKind::kMemset, OpKind::kAllocation, OpKind::kFree, OpKind::kCall});
}

CallIndex EnclosingLibraryOp(const TraceModel& model, CallIndex call) {
  int depth = 0;
  for (CallIndex at = model.calls.parent[call]; at != kNone && depth < kMaxDepth;
       at = model.calls.parent[at], ++depth) {
    if (IsLibraryOp(model.ops[model.calls.op[at]])) return at;
  }
  return kNone;
}

std::string KindAndDirection(const Op& op) {
  if (op.direction == Direction::kUnknown) return KindLabel(op);
  return absl::StrCat(KindLabel(op), " ", DirectionName(op.direction));
}

// cudaDeviceSynchronize, cudaStreamSynchronize_ptsz, cuEventSynchronize, cuCtxSynchronize …
bool WaitsForGpu(const Op& op) { return op.family == "cuda_sync" && absl::StrContains(op.function, "Synchronize"); }

bool IsElapsedTime(const Op& op) { return absl::StrContains(op.function, "EventElapsedTime"); }

bool IsEventRecord(const Op& op) { return absl::StrContains(op.function, "EventRecord"); }

bool IsGraphLaunch(const Op& op) { return op.family == "cuda_graph" && absl::StrContains(op.function, "GraphLaunch"); }

}  // namespace dlhook::analyzer::calls
