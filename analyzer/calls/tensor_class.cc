// Weights or activations: see tensor_class.h.
#include "analyzer/calls/tensor_class.h"

#include "absl/strings/match.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline calls {
namespace {

TensorClassSet ClassOf(const std::string& role) {
  if (absl::StrContains(role, "wei")) return TensorClass::kWeights;
  if (absl::StartsWith(role, "bia")) return TensorClass::kBias;
  for (const char* activation : {"src", "dst", "data", "diff"}) {
    if (absl::StartsWith(role, activation)) return TensorClass::kActivations;
  }
  return 0;
}

}  // namespace

std::string TensorClassText(TensorClassSet classes) {
  switch (classes) {
    case 0:
      return "unknown";
    case TensorClass::kWeights:
      return "weights";
    case TensorClass::kBias:
      return "bias";
    case TensorClass::kMatrix:
      return "matrix";
    case TensorClass::kActivations:
      return "activations";
    case TensorClass::kWeights | TensorClass::kActivations:
      return "activations or weights";
    case TensorClass::kBias | TensorClass::kActivations:
      return "activations or bias";
    case TensorClass::kBias | TensorClass::kWeights:
      return "weights or bias";
    default:
      return "activations, weights or bias";
  }
}

TensorClasses::TensorClasses(const TraceModel& model, const RunTotals& totals) {
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    if (IsKind(op, OpKind::kReorder) || op.is_creation || totals.ops[i].calls == 0) continue;
    for (const Tensor& tensor : op.tensors) {
      if (!tensor.defined || tensor.dims.empty()) continue;
      by_format_[{tensor.dims, tensor.format}] |= ClassOf(tensor.role);
      by_dims_[tensor.dims] |= ClassOf(tensor.role);
    }
  }
}

TensorClassSet TensorClasses::Of(const Op& reorder) const {
  TensorClassSet classes = 0;
  for (const Tensor& tensor : reorder.tensors) {
    const auto it = by_format_.find({tensor.dims, tensor.format});
    if (it != by_format_.end()) classes |= it->second;
  }
  if (classes != 0) return classes;
  for (const Tensor& tensor : reorder.tensors) {
    const auto it = by_dims_.find(tensor.dims);
    if (it != by_dims_.end()) return it->second;
  }
  for (const Tensor& tensor : reorder.tensors) {
    std::vector<int64_t> exchanged = tensor.dims;
    if (exchanged.size() < 3) continue;
    std::swap(exchanged[0], exchanged[1]);
    const auto it = by_dims_.find(exchanged);
    if (it != by_dims_.end()) return it->second & TensorClass::kWeights;
  }
  return 0;
}

}  // namespace dlhook::analyzer::calls
