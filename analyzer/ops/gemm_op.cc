// Matrix products and other level-3 functions of BLAS, cuBLAS, cuBLASLt, cuSPARSE.

#include "analyzer/model/op_cost.h"
#include "analyzer/ops/decode_op.h"
#include "analyzer/ops/nvidia_names.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {
namespace {

std::string GemmKindName(GemmKind kind) {
  if (kind == GemmKind::kHeuristic) return "gemm";
  const bool is_part = kind == GemmKind::kCompute || kind == GemmKind::kPack;
  return absl::StrCat(is_part ? "gemm_" : "", EnumName(kind));
}

// A type with the way in which the matrix is scaled: "f8_e4m3/mxfp8".
std::string ScaledTypeName(DataType type, uint32_t scale_mode) {
  const std::string name = TypeName(type);
  const std::string scale = LtScaleModeName(scale_mode, TypeBits(name).value_or(0));
  return scale.empty() ? name : absl::StrCat(name, "/", scale);
}

// Orders of cuBLASLt are recorded as cublasLtOrder_t + 1.
constexpr uint32_t kColumnOrder = 1, kRowOrder = 2;

bool HasOrders(const trace::CudaGemm& cuda, uint32_t order) {
  return cuda.order_a() == order && cuda.order_b() == order && cuda.order_d() == order;
}

// A product is stated in the order of its result. cuBLASLt has an order per matrix.
bool IsRowMajor(const trace::Gemm& gemm) { return gemm.row_major() || gemm.cuda().order_d() == kRowOrder; }

// Memory orders that are neither column-major nor row-major throughout: the problem then names them.
bool HasOwnOrders(const trace::CudaGemm& cuda) {
  return !HasOrders(cuda, 0) && !HasOrders(cuda, kColumnOrder) && !HasOrders(cuda, kRowOrder);
}

std::string OrderName(uint32_t order) { return order == 0 ? "?" : NameIn(kOrders, int64_t{order} - 1); }

struct Shape {
  int64_t m, n, k;
  std::string trans;
  std::string types;
};

// Without leading dimensions: they describe where a matrix is, not which product it is.
std::string GemmProblem(const trace::Gemm& gemm, const Shape& shape) {
  const bool is_known = gemm.groups() == 0 || shape.m != 0 || shape.n != 0;  // else they are in device memory
  std::string text = is_known ? absl::StrCat("m", shape.m, " n", shape.n, " k", shape.k) : "m? n? k?";
  if (!shape.trans.empty()) absl::StrAppend(&text, " ", shape.trans);
  absl::StrAppend(&text, " ", shape.types);
  if (gemm.batch() > 1) absl::StrAppend(&text, " batch", gemm.batch());
  if (gemm.groups() > 1) absl::StrAppend(&text, " groups", gemm.groups());
  return text;
}

void DecodeProblem(const trace::Gemm& gemm, Op& op) {
  const std::string a = ScaledTypeName(op.gemm()->a_type, gemm.cuda().scale_mode_a());
  const std::string b = ScaledTypeName(op.gemm()->b_type, gemm.cuda().scale_mode_b());
  const std::string c = ScaledTypeName(op.gemm()->c_type, gemm.cuda().scale_mode_d());
  op.types = TypesText({a, b, c});
  op.problem =
      GemmProblem(gemm, {gemm.m(), gemm.n(), gemm.k(), absl::StrCat(gemm.trans_a(), gemm.trans_b()), op.types});
  if (HasOwnOrders(gemm.cuda())) {
    absl::StrAppend(&op.problem, " ", OrderName(gemm.cuda().order_a()), ":", OrderName(gemm.cuda().order_b()), ":",
                    OrderName(gemm.cuda().order_d()));
  } else if (IsRowMajor(gemm)) {
    absl::StrAppend(&op.problem, " row-major");
  } else {  // C' = op(B)' op(A)', and a column-major matrix read by rows is its transpose
    op.row_major_problem = GemmProblem(
        gemm, {gemm.n(), gemm.m(), gemm.k(), absl::StrCat(gemm.trans_b(), gemm.trans_a()), TypesText({b, a, c})});
  }
}

// "cublasLt algo 21 tile 128x64 stages 32x4 split-k 1", then everything that is not a default.
std::string LtImplementation(const trace::CudaGemm& cuda) {
  if (!cuda.lt() || cuda.algorithm() < 0) return "";
  std::string text = absl::StrCat("cublasLt algo ", cuda.algorithm(), " tile ", LtTileName(cuda.tile()), " stages ",
                                  NameIn(kStages, cuda.stages()), " split-k ", cuda.split_k());
  if (cuda.reduction() != 0) absl::StrAppend(&text, " reduction ", cuda.reduction());
  if (cuda.swizzle() != 0) absl::StrAppend(&text, " swizzle ", cuda.swizzle());
  if (cuda.custom_option() != 0) absl::StrAppend(&text, " custom ", cuda.custom_option());
  if (cuda.inner_shape() != 0) absl::StrAppend(&text, " inner ", NameIn(kInnerShapes, cuda.inner_shape()));
  if (cuda.cluster_shape() != 0) absl::StrAppend(&text, " cluster ", NameIn(kClusters, cuda.cluster_shape()));
  return text;
}

void DecodeCudaGemm(const trace::Gemm& gemm, Op& op) {
  const trace::CudaGemm& cuda = gemm.cuda();
  op.on_gpu = true;
  op.is_asynchronous = true;
  op.implementation = LtImplementation(cuda);
  op.compute_type = ComputeTypeName(cuda.compute_type());
  op.math_mode = MathModeName(cuda.math_mode());
  // Legacy functions take an algorithm only if they have a compute type.
  if (!cuda.lt() && cuda.compute_type() != -1) op.algorithm = GemmAlgorithmName(cuda.algorithm());
  if (cuda.lt()) {
    op.workspace_bytes = static_cast<int64_t>(cuda.workspace_bytes());
    op.post_ops = EpilogueNames(cuda.epilogue());
  }
  if (cuda.fast_accumulation()) op.notes.push_back("fast_accumulation");
  op.chooser = FromProto<Chooser>(cuda.chooser());
  if (cuda.heuristic_rank() >= 0 && cuda.heuristic_results() > 0) {
    op.heuristic = absl::StrCat("rank ", cuda.heuristic_rank(), " of ", cuda.heuristic_results());
  }
  op.tensor_core = TensorCoreOf(gemm);
}

// cublasLtMatmulAlgoGetHeuristic: runs on the host and returns algorithms for the product.
void MakeSearch(const trace::CudaGemm& cuda, Op& op) {
  op.subject = std::exchange(op.kind, "search");
  op.is_asynchronous = false;
  op.chooser = Chooser::kHeuristic;
  op.heuristic = absl::StrCat(cuda.heuristic_results(), " of ", cuda.heuristic_requested(), " requested");
}

}  // namespace

void DecodeGemm(const trace::Gemm& gemm, Op& op) {
  GemmCall call;
  Read(gemm, &call);
  const GemmKind kind = call.kind;
  if (call.b_type == DataType::kUnknown) call.b_type = call.a_type;
  if (call.c_type == DataType::kUnknown) call.c_type = call.a_type;
  call.row_major = IsRowMajor(gemm);
  call.is_lt = gemm.cuda().lt();
  call.heuristic_results = gemm.cuda().heuristic_results();
  op.asked = call;
  op.kind = GemmKindName(kind);
  DecodeProblem(gemm, op);
  op.flops = GemmFlops(call);
  op.bytes = GemmBytes(call);
  op.on_gpu = op.is_asynchronous = IsGpuFamily(op.family);
  if (gemm.has_cuda()) DecodeCudaGemm(gemm, op);
  if (kind == GemmKind::kHeuristic) MakeSearch(gemm.cuda(), op);
}

void DecodeMatrixOp(const trace::MatrixOp& matrix, Op& op) {
  MatrixCall call;
  Read(matrix, &call);
  if (call.c_type == DataType::kUnknown) call.c_type = call.type;
  op.asked = call;
  op.kind = call.kind == MatrixKind::kUnknown ? "matrix" : EnumName(call.kind);
  op.on_gpu = IsGpuFamily(op.family);
  op.is_asynchronous = op.on_gpu;
  op.types = TypeName(call.type);
  if (call.c_type != call.type) absl::StrAppend(&op.types, ":", TypeName(call.c_type));
  const bool rank_k = matrix.m() == 0 && matrix.k() != 0;
  op.problem =
      rank_k ? absl::StrCat("n", matrix.n(), " k", matrix.k()) : absl::StrCat("m", matrix.m(), " n", matrix.n());
  if (!rank_k && matrix.k() != 0) absl::StrAppend(&op.problem, " k", matrix.k());
  for (const std::string& flag :
       {matrix.side(), matrix.uplo(), absl::StrCat(matrix.trans(), matrix.trans_b()), matrix.diag()}) {
    if (!flag.empty()) absl::StrAppend(&op.problem, " ", flag);
  }
  absl::StrAppend(&op.problem, " ", op.types);
  if (matrix.order_a() != 0 || matrix.order_c() != 0) {
    absl::StrAppend(&op.problem, " ", OrderName(matrix.order_a()), "->", OrderName(matrix.order_c()));
  }
  if (matrix.nonzeros() > 0) absl::StrAppend(&op.problem, " nonzeros", matrix.nonzeros());
  if (matrix.batch() > 1) absl::StrAppend(&op.problem, " batch", matrix.batch());
  if (matrix.row_major()) absl::StrAppend(&op.problem, " row-major");
  op.flops = MatrixFlops(call);
  op.bytes = MatrixBytes(call);
}

}  // namespace dlhook::analyzer::ops
