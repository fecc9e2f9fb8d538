// Names of conversion kernels: of kKernels the first entry whose part occurs in the name applies. To add one, add a
// line here and a case in tests/analyzer/calls/gpu_layout_test.cc.
#include "analyzer/calls/tensor_class.h"

#include "analyzer/calls/op_labels.h"
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

constexpr ConversionKernel kKernels[] = {
    // cuDNN (cudnn::ops, cudnn::engines_precompiled): to and from the layout that its engine needs, with a type
    // conversion if the first two template arguments differ. Folded: several columns in one vector.
    {"nchwToNhwcKernel", "nchw", "nhwc", "format"},
    {"nhwcToNchwKernel", "nhwc", "nchw", "format"},
    {"nchwToFoldedNhwcKernel", "nchw", "folded nhwc", "format"},
    {"nhwcToFoldedNhwcKernel", "nhwc", "folded nhwc", "format"},
    {"foldedNhwcToNhwcKernel", "folded nhwc", "nhwc", "format"},
    // cuDNN: pads channels to a multiple of the vector length.
    {"nchwAddPaddingKernel", "nchw", "nchw padded", "format"},
    {"nhwcAddPaddingKernel", "nhwc", "nhwc padded", "format"},
    // cuDNN: any strides and types to any others; the name does not say which.
    {"tensorTransformGeneric", "", "", "format or type"},
    {"convertTensor_kernel", "", "", "format or type"},
    {"genericTranspose_kernel", "", "", "format"},
    {"transposeBlock_kernel", "", "", "format"},
    {"transposeWarp_kernel", "", "", "format"},
    // cuBLAS's transpose, also used by cuDNN (FFT convolutions, RNNs).
    {"transpose_readWrite_alignment_kernel", "", "", "format"},
    // TensorFlow: NCHW <-> NHWC as a transpose of the inner two, or of the outer and the inner, of three dimensions;
    // any other permutation.
    {"SwapDimension1And2InTensor3", "", "", "format"},
    {"SwapDimension0And2InTensor3", "", "", "format"},
    {"ShuffleInTensor3Simple", "", "", "format"},
    // XLA names a fusion after its contents.
    {"transpose_fusion", "", "", "format"},
    {"wrapped_transpose", "", "", "format"},
    {"wrapped_copy", "", "", "format or copy"},
    // PyTorch: Tensor.contiguous(), .to(memory_format=…), copy_ between strides or types.
    {"direct_copy_kernel", "", "", "format, type or copy"},
};

std::string FormatLabel(const Tensor& tensor) {
  return tensor.strides.empty() ? tensor.format : absl::StrCat(tensor.format, "(", tensor.strides, ")");
}

const char* ChangeLabel(bool format, bool type) {
  if (format) return type ? "format and type" : "format";
  return type ? "type" : "copy";
}

TensorMove ReorderMove(const Op& op, const TensorClasses& classes) {
  TensorMove move;
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

TensorMove MatrixMove(const MatrixCall& matrix) {
  TensorMove move;
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

std::string TensorClassText(TensorClassSet classes) {
  constexpr std::pair<TensorClassSet, const char*> kTexts[] = {
      {0, "unknown"},
      {TensorClass::kWeights, "weights"},
      {TensorClass::kBias, "bias"},
      {TensorClass::kMatrix, "matrix"},
      {TensorClass::kActivations, "activations"},
      {TensorClass::kWeights | TensorClass::kActivations, "activations or weights"},
      {TensorClass::kBias | TensorClass::kActivations, "activations or bias"},
      {TensorClass::kBias | TensorClass::kWeights, "weights or bias"}};
  for (const auto& [of, text] : kTexts) {
    if (of == classes) return text;
  }
  return "activations, weights or bias";
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
    if (const auto it = by_format_.find({tensor.dims, tensor.format}); it != by_format_.end()) classes |= it->second;
  }
  if (classes != 0) return classes;
  for (const Tensor& tensor : reorder.tensors) {
    if (const auto it = by_dims_.find(tensor.dims); it != by_dims_.end()) return it->second;
  }
  for (const Tensor& tensor : reorder.tensors) {
    std::vector<int64_t> exchanged = tensor.dims;
    if (exchanged.size() < 3) continue;
    std::swap(exchanged[0], exchanged[1]);
    if (const auto it = by_dims_.find(exchanged); it != by_dims_.end()) return it->second & TensorClass::kWeights;
  }
  return 0;
}

const ConversionKernel* FindConversionKernel(absl::string_view kernel_name) {
  for (const ConversionKernel& kernel : kKernels) {
    if (absl::StrContains(kernel_name, kernel.part)) return &kernel;
  }
  return nullptr;
}

std::optional<TensorMove> MoveOf(const Op& op, const TensorClasses& classes) {
  if (op.is_creation || op.is_trial) return std::nullopt;
  if (IsKind(op, OpKind::kReorder)) return ReorderMove(op, classes);
  if (op.matrix() && IsMatrixMove(*op.matrix())) return MatrixMove(*op.matrix());
  if (!op.launch()) return std::nullopt;
  const ConversionKernel* kernel = FindConversionKernel(op.kernel_name);
  if (kernel == nullptr) return std::nullopt;
  TensorMove move;
  move.change = std::string(kernel->change);
  move.from = std::string(kernel->from);
  move.to = std::string(kernel->to);
  return move;
}

}  // namespace dlhook::analyzer::calls
