#include "analyzer/tables/layout_moves.h"

#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline tables {
namespace {

std::string FormatLabel(const Tensor& tensor) {
  return tensor.strides.empty() ? tensor.format : absl::StrCat(tensor.format, "(", tensor.strides, ")");
}

const char* ChangeLabel(bool format, bool type) {
  if (format) return type ? "format and type" : "format";
  return type ? "type" : "copy";
}

Move ReorderMove(const Op& op, const TensorClasses& classes) {
  Move move;
  move.dims = op.problem;
  move.tensor = classes.Of(op);
  const Tensor* from = nullptr;
  const Tensor* to = nullptr;
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == "src") from = &tensor;
    if (tensor.role == "dst") to = &tensor;
  }
  if (!from || !to) {
    move.change = "unknown";
    move.from = FormatsLabel(op);
    return move;
  }
  move.change = ChangeLabel(FormatLabel(*from) != FormatLabel(*to), from->type != to->type);
  move.from = FormatLabel(*from);
  move.to = FormatLabel(*to);
  move.from_type = from->type;
  move.to_type = to->type;
  return move;
}

// cublasLtOrder_t + 1; 0: column-major by definition.
std::string OrderName(uint32_t order) {
  constexpr const char* kNames[] = {"col", "col", "row", "col32", "col4_4r2_8c", "col32_2r_4r4"};
  return order < std::size(kNames) ? kNames[order] : absl::StrCat("order ", order - 1);
}

bool IsTransposed(const std::string& trans) { return !trans.empty() && trans != "N"; }

Move MatrixMove(const MatrixCall& matrix) {
  Move move;
  move.dims = absl::StrCat(matrix.m, "x", matrix.n);
  if (matrix.batch > 1) move.dims = absl::StrCat(matrix.batch, "x", move.dims);
  move.tensor = TensorClass::kMatrix;
  const bool transposed = IsTransposed(matrix.trans) || IsTransposed(matrix.trans_b);
  move.from = OrderName(matrix.order_a);
  move.to = OrderName(matrix.order_c);
  if (transposed) absl::StrAppend(&move.to, " transposed");
  move.from_type = EnumName(matrix.type);
  move.to_type = EnumName(matrix.c_type);
  move.change = ChangeLabel(move.from != move.to, matrix.c_type != matrix.type);
  return move;
}

// geam without a transpose only adds matrices.
bool IsMatrixMove(const MatrixCall& matrix) {
  if (matrix.kind == MatrixKind::kTransform) return true;
  return matrix.kind == MatrixKind::kGeam && (IsTransposed(matrix.trans) || IsTransposed(matrix.trans_b));
}

}  // namespace

std::optional<Move> MoveOf(const Op& op, const TensorClasses& classes) {
  if (op.is_creation || op.is_trial) return std::nullopt;
  if (IsKind(op, OpKind::kReorder)) return ReorderMove(op, classes);
  if (op.matrix() && IsMatrixMove(*op.matrix())) return MatrixMove(*op.matrix());
  if (!op.launch()) return std::nullopt;
  const ConversionKernel* kernel = FindConversionKernel(op.kernel_name);
  if (kernel == nullptr) return std::nullopt;
  Move move;
  move.change = std::string(kernel->change);
  move.from = std::string(kernel->from);
  move.to = std::string(kernel->to);
  return move;
}

}  // namespace dlhook::analyzer::tables
