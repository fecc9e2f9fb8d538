#include "analyzer/model/gemm_shape.h"

#include "analyzer/model/op_cost.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline model {
namespace {

const Tensor* Find(const Op& op, const char* role, const char* other_role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role || tensor.role == other_role) return &tensor;
  }
  return nullptr;
}

// "N" if the last two dimensions are in alphabetical order ("ab", "abc"), "T" if swapped ("ba", "acb"); packed formats
// ("BA16a64b") are the library's own: "P".
std::string Transposition(const Tensor& tensor) {
  const std::string& tag = tensor.format;
  if (tag.size() < 2 || tag.size() != tensor.dims.size()) return "P";
  const auto row = tag.find(static_cast<char>('a' + tag.size() - 2));
  const auto column = tag.find(static_cast<char>('a' + tag.size() - 1));
  if (row == std::string::npos || column == std::string::npos) return "P";
  return row < column ? "N" : "T";
}

int64_t BatchOf(const Dims& dst) { return ElementCount(Dims(dst.begin(), dst.end() - 2)).value_or(1); }

std::optional<MatmulShape> MatMulShape(const Op& op) {
  const Tensor* a = Find(op, "src", "src_a");
  const Tensor* b = Find(op, "wei", "src_b");
  const Tensor* c = Find(op, "dst", "dst");
  if (!a || !b || !c || a->dims.size() < 2 || b->dims.size() < 2 || c->dims.size() < 2) return std::nullopt;
  return MatmulShape{.m = c->dims[c->dims.size() - 2],
                     .n = c->dims.back(),
                     .k = a->dims.back(),
                     .batch = BatchOf(c->dims),
                     .trans = absl::StrCat(Transposition(*a), Transposition(*b)),
                     .order = "row"};
}

std::optional<MatmulShape> InnerProductShape(const Op& op) {
  const Tensor* wei = Find(op, "wei", "wei");
  const Tensor* dst = Find(op, "dst", "dst");
  if (!wei || !dst || wei->dims.size() < 2 || dst->dims.size() != 2) return std::nullopt;
  const int64_t mb = dst->dims[0], oc = dst->dims[1];
  const std::optional<int64_t> ic = ElementCount(Dims(wei->dims.begin() + 1, wei->dims.end()));
  if (!ic) return std::nullopt;
  switch (op.direction) {
    case Direction::kBackwardData:
      return MatmulShape{mb, *ic, oc, 1, "", "row"};
    case Direction::kBackwardWeights:
      return MatmulShape{oc, *ic, mb, 1, "", "row"};
    default:
      return MatmulShape{mb, oc, *ic, 1, "", "row"};
  }
}

}  // namespace

bool IsMatrixProduct(const Op& op) {
  if (op.gemm()) return op.gemm()->kind != GemmKind::kHeuristic;
  return op.onednn_problem() && IsKind(op, {OpKind::kMatmul, OpKind::kInnerProduct, OpKind::kGemmApi, OpKind::kGemm});
}

std::optional<MatmulShape> MatmulShapeOf(const Op& op) {
  if (op.gemm()) {
    const GemmCall& gemm = *op.gemm();
    if (gemm.groups > 0 && gemm.m == 0 && gemm.n == 0) return std::nullopt;  // in device memory
    return MatmulShape{.m = gemm.m,
                       .n = gemm.n,
                       .k = gemm.k,
                       .batch = std::max<int64_t>(gemm.batch, 1),
                       .trans = absl::StrCat(gemm.trans_a, gemm.trans_b),
                       .order = gemm.row_major ? "row" : "col"};
  }
  if (!IsMatrixProduct(op)) return std::nullopt;
  return IsKind(op, OpKind::kInnerProduct) ? InnerProductShape(op) : MatMulShape(op);
}

}  // namespace dlhook::analyzer::model
