// Weights or activations: see tensor_class.h.
#include "analyzer/calls/tensor_class.h"

#include "absl/strings/match.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline calls {
namespace {

enum ClassBit { kWeights = 1, kBias = 2, kActivations = 4 };

int BitOf(const std::string& role) {
  if (absl::StrContains(role, "wei")) return kWeights;
  if (absl::StartsWith(role, "bia")) return kBias;
  for (const char* activation : {"src", "dst", "data", "diff"}) {
    if (absl::StartsWith(role, activation)) return kActivations;
  }
  return 0;
}

std::string NameOf(int bits) {
  switch (bits) {
    case 0:
      return "unknown";
    case kWeights:
      return "weights";
    case kBias:
      return "bias";
    case kActivations:
      return "activations";
    case kWeights | kActivations:
      return "activations or weights";
    case kBias | kActivations:
      return "activations or bias";
    case kBias | kWeights:
      return "weights or bias";
    default:
      return "activations, weights or bias";
  }
}

}  // namespace

TensorClasses::TensorClasses(const TraceModel& model, const RunTotals& totals) {
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (IsKind(op, OpKind::kReorder) || op.is_creation || totals.ops[i].calls == 0) continue;
    for (const Tensor& tensor : op.tensors) {
      if (!tensor.defined || tensor.dims.empty()) continue;
      by_format_[{tensor.dims, tensor.format}] |= BitOf(tensor.role);
      by_dims_[tensor.dims] |= BitOf(tensor.role);
    }
  }
}

std::string TensorClasses::Of(const Op& reorder) const {
  int bits = 0;
  for (const Tensor& tensor : reorder.tensors) {
    const auto it = by_format_.find({tensor.dims, tensor.format});
    if (it != by_format_.end()) bits |= it->second;
  }
  if (bits != 0) return NameOf(bits);
  for (const Tensor& tensor : reorder.tensors) {
    const auto it = by_dims_.find(tensor.dims);
    if (it != by_dims_.end()) return NameOf(it->second);
  }
  for (const Tensor& tensor : reorder.tensors) {
    std::vector<int64_t> exchanged = tensor.dims;
    if (exchanged.size() < 3) continue;
    std::swap(exchanged[0], exchanged[1]);
    const auto it = by_dims_.find(exchanged);
    if (it != by_dims_.end()) return NameOf(it->second & kWeights);
  }
  return NameOf(0);
}

}  // namespace dlhook::analyzer::calls
