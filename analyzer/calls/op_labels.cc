#include "analyzer/calls/op_labels.h"

#include "analyzer/model/op_kind.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline calls {
namespace {

// For these, oneDNN's `alg` says how (direct, winograd); for all others what is computed.
bool AlgorithmIsAChoice(const Op& op) { return IsKind(op, {OpKind::kConvolution, OpKind::kDeconvolution}); }

const Tensor* FirstDefined(const Op& op, const char* role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role && tensor.defined) return &tensor;
  }
  return nullptr;
}

// Real nesting is a few calls deep; only a damaged trace goes beyond.
constexpr int kMaxDepth = 64;

}  // namespace

std::string ProblemLabel(const Op& op) {
  if (IsKind(op, OpKind::kReorder)) {
    const Tensor* from = FirstDefined(op, "src");
    const Tensor* to = FirstDefined(op, "dst");
    if (from && to) return absl::StrCat(op.problem, " ", from->format, "->", to->format);
  }
  if (op.algorithm.empty() || AlgorithmIsAChoice(op)) return op.problem;
  return absl::StrCat(op.problem, " ", op.algorithm);
}

std::string KindLabel(const Op& op) {
  if (op.is_creation) return absl::StrCat("create:", op.kind);
  if (op.is_trial) return absl::StrCat("trial:", op.kind);
  if (op.captured) return absl::StrCat("capture:", op.kind);
  if (!op.subject.empty()) return absl::StrCat(op.kind, ":", op.subject);
  return op.kind;
}

std::string FormatsLabel(const Op& op) {
  std::vector<std::string> words;
  for (const Tensor& tensor : op.tensors) {
    if (!tensor.defined) continue;
    words.push_back(absl::StrCat(tensor.role, ":", tensor.format));
    if (!tensor.strides.empty()) absl::StrAppend(&words.back(), "(", tensor.strides, ")");
  }
  return absl::StrJoin(words, " ");
}

bool TellsSteps(const Op& op) {
  if (op.family == kJaxTap.family) return false;  // the scopes of XLA's operations do
  if (op.is_creation || op.is_trial || op.captured || !op.subject.empty()) return false;
  if (IsKind(op, {OpKind::kAllocation, OpKind::kFree}) || op.family == "nvrtc") return false;
  if (absl::StartsWith(op.family, "cuda_")) return op.launch() || op.copy() || IsGraphLaunch(op);
  return !absl::EndsWith(op.family, "_setup");
}

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
bool WaitsForGpu(const Op& op) {
  return op.family == "cuda_sync" && (absl::StrContains(op.function, "Synchronize") || op.function == kQueueIsFull);
}

bool IsElapsedTime(const Op& op) { return absl::StrContains(op.function, "EventElapsedTime"); }
bool IsEventRecord(const Op& op) { return absl::StrContains(op.function, "EventRecord"); }
bool IsGraphLaunch(const Op& op) { return op.family == "cuda_graph" && absl::StrContains(op.function, "GraphLaunch"); }

}  // namespace dlhook::analyzer::calls
