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
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::trace {
class Cudnn;
class Gemm;
}  // namespace dlhook::trace

namespace dlhook::analyzer::inline ops {

// nullopt: not a product on a GPU, or its types are not known.
std::optional<TensorCore> TensorCoreOf(const trace::Gemm& gemm);

// `op`: kind and types are read. nullopt: not a convolution, product, attention or RNN, or not known.
std::optional<TensorCore> TensorCoreOf(const trace::Cudnn& cudnn, const Op& op);

}  // namespace dlhook::analyzer::ops
