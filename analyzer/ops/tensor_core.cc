// Whether a call may run on tensor cores. What a library says about the engine that ran is a fact; the rest follows
// from the rules in the libraries' manuals, as far as the call's arguments decide (the device is not part of an op, so
// the reason names the compute capability that is needed).
//
// cuBLAS (cublas_api.h; manual, "Tensor Core Usage", "cublasMath_t", "cublasComputeType_t"):
//   - since 11.0 tensor cores are used wherever possible unless pedantic compute is requested; a handle's pedantic mode
//     counts where the call has no cublasComputeType_t of its own;
//   - f32 stays f32 unless the compute type (32f_fast_*) or the math mode (tf32_tensor_op, tensor_op) allows less;
//   - they run best where addresses and leading dimensions are multiples of 16 bytes; before 11.0 that was a condition;
//   - there are none for s16, s32, s64 and matrix-vector products.
// cuDNN (cudnn_graph.h, CUDNN_NUMERICAL_NOTE_TENSOR_CORE; API reference, "cudnnMathType_t"):
//   - graph API: the engine's numerical note;
//   - legacy: fma forbids them; default permits TF32 for f32 from compute capability 8.0 on and nothing before 8.0;
//     tensor_op permits them for f16 and bf16; tensor_op_allow_conversion for f32 too.
#include "analyzer/ops/decode_op.h"
#include "analyzer/ops/nvidia_names.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {
namespace {

constexpr uint32_t kBestAlignment = 16;
constexpr int32_t kMathModeBits = 15;  // the rest are flags
constexpr int32_t kTensorOpMath = 1, kPedanticMath = 2, kTf32Math = 3, kEmulatedBf16x9Math = 4;

TensorCore Yes(std::string reason) { return {true, false, std::move(reason)}; }
TensorCore No(std::string reason) { return {false, false, std::move(reason)}; }

bool IsPedantic(const trace::CudaGemm& cuda) {
  if (cuda.compute_type() >= kFirstComputeType) {
    return absl::EndsWith(ComputeTypeName(cuda.compute_type()), "_pedantic");
  }
  return cuda.math_mode() >= 0 && (cuda.math_mode() & kMathModeBits) == kPedanticMath;
}

TensorCore SinglePrecision(const trace::CudaGemm& cuda) {
  const std::string compute = ComputeTypeName(cuda.compute_type());
  if (absl::StrContains(compute, "_fast_") || absl::StrContains(compute, "_emulated_")) {
    return Yes(absl::StrCat("compute type ", compute));
  }
  const int32_t mode = cuda.math_mode() < 0 ? 0 : cuda.math_mode() & kMathModeBits;
  if (mode == kTf32Math || mode == kTensorOpMath || mode == kEmulatedBf16x9Math) {
    return Yes(absl::StrCat("math mode ", MathModeName(mode)));
  }
  return No(cuda.lt() ? absl::StrCat("compute type ", compute.empty() ? "32f" : compute, " keeps f32")
                      : absl::StrCat("math mode ", MathModeName(mode), " keeps f32"));
}

TensorCore ByType(trace::DataType type, const trace::CudaGemm& cuda) {
  switch (type) {
    case trace::F32:
    case trace::C32:
      return SinglePrecision(cuda);
    case trace::F64:
    case trace::C64:
      return Yes("type f64: from compute capability 8.0");
    case trace::F16:
    case trace::C16:
      return Yes("type f16: from compute capability 7.0");
    case trace::BF16:
    case trace::CBF16:
    case trace::TF32:
      return Yes("type bf16: from compute capability 8.0");
    case trace::S8:
    case trace::U8:
      return Yes("type s8: from compute capability 7.2");
    case trace::S4:
    case trace::U4:
      return Yes("type s4: from compute capability 7.5");
    case trace::F8_E4M3:
    case trace::F8_E5M2:
    case trace::F8_E8M0:
      return Yes("type f8: from compute capability 8.9");
    case trace::F4_E2M1:
      return Yes("type f4: from compute capability 10.0");
    default:
      return No(absl::StrCat("type ", TypeName(FromProto<DataType>(type))));
  }
}

// An engine without notes reports that it has none, unless it was not asked: plans from JSON are not.
std::optional<TensorCore> OfPlan(const trace::CudnnPlan& plan) {
  constexpr int32_t kTensorCoreNote = 0;
  if (absl::c_count(plan.numerical_note(), kTensorCoreNote) > 0)
    return TensorCore{true, true, "engine's numerical note"};
  if (plan.engine() < 0 || !plan.json().empty()) return std::nullopt;
  return TensorCore{false, true, "engine has no tensor_core note"};
}

TensorCore OfMathType(int32_t math_type, const std::string& types) {
  const bool single = types == "f32";
  const bool half = absl::StrContains(types, "f16");
  if (math_type == 3) return No("math type fma");
  if (!single && !half) return No(absl::StrCat("type ", types));
  switch (math_type) {
    case 1:
      return half ? Yes("math type tensor_op") : No("math type tensor_op keeps f32");
    case 2:
      return Yes("math type tensor_op_allow_conversion");
    default:
      return single ? Yes("math type default: TF32 from compute capability 8.0") : No("math type default");
  }
}

}  // namespace

std::optional<TensorCore> TensorCoreOf(const trace::Gemm& gemm) {
  if (!gemm.has_cuda() || gemm.a_type() == trace::DATA_TYPE_UNKNOWN) return std::nullopt;
  const trace::CudaGemm& cuda = gemm.cuda();
  if (gemm.kind() == trace::Gemm::GEMV || gemm.kind() == trace::Gemm::GER) return No("matrix-vector");
  if (IsPedantic(cuda)) {
    return No(cuda.compute_type() >= kFirstComputeType
                  ? absl::StrCat("compute type ", ComputeTypeName(cuda.compute_type()))
                  : "math mode pedantic");
  }
  TensorCore core = ByType(gemm.a_type(), cuda);
  if (core.eligible && cuda.alignment_bytes() != 0 && cuda.alignment_bytes() < kBestAlignment) {
    absl::StrAppend(&core.reason, "; alignment ", cuda.alignment_bytes(),
                    " bytes is below 16: slower, and none before cuBLAS 11");
  }
  return core;
}

std::optional<TensorCore> TensorCoreOf(const trace::Cudnn& cudnn, const Op& op) {
  const bool multiplies = op.kind == "convolution" || op.kind == "matmul" || op.kind == "rnn" || op.kind == "attention";
  if (!multiplies || op.direction == Direction::kBackwardBias) return std::nullopt;
  if (cudnn.has_plan()) return OfPlan(cudnn.plan());
  if (cudnn.math_type() < 0 || op.types.empty()) return std::nullopt;
  return OfMathType(cudnn.math_type(), op.types);
}

}  // namespace dlhook::analyzer::ops
