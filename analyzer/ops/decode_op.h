// Decodes an op definition into an Op.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::trace {
class Allocation;
class Collective;
class Copy;
class Cudnn;
class CudnnSearch;
class Gemm;
class KernelLaunch;
class MatrixOp;
class OneDnn;
class OpDefinition;
}  // namespace dlhook::trace

namespace dlhook::analyzer::inline ops {

// Never fails: what can't be parsed remains text in `problem`, without shapes.
Op DecodeOp(const trace::OpDefinition& definition);

// Each of these sets all fields of `op` except those of the definition itself (function, family, time source, captured).

// Matrix products and other level-3 functions: BLAS on the CPU, cuBLAS and cuBLASLt, sparse products.
void DecodeGemm(const trace::Gemm& gemm, Op& op);
void DecodeMatrixOp(const trace::MatrixOp& matrix, Op& op);

// One line of oneDNN's log. See onednn_text.h for the syntax, op_cost.h for the formulas.
void DecodeOneDnn(const trace::OneDnn& line, Op& op);

// cuDNN's calls have the terms of oneDNN's log, so that both share tables.
// Of a layer without numbers only the kind and the direction are known.
// A plan that was built from JSON is read from that text; `op.trouble` says which part could not be parsed.
void DecodeCudnn(const trace::Cudnn& cudnn, Op& op);
// An op of kind "search" with the direction, tensors and text of its problem, and no cost.
void DecodeCudnnSearch(const trace::CudnnSearch& search, Op& op);

// The CUDA runtime, the driver, NCCL and MPI.
void DecodeCopy(const trace::Copy& copy, Op& op);
void DecodeLaunch(const trace::KernelLaunch& launch, Op& op);
void DecodeAllocation(const trace::Allocation& allocation, Op& op);
void DecodeCollective(const trace::Collective& collective, Op& op);

// Whether calls of this family ask a GPU for work.
bool IsGpuFamily(const std::string& family);

// "f32", or "s8:u8:s32" if they differ.
std::string TypesText(const std::vector<std::string>& types);

// nullopt: not a product on a GPU, or its types are not known.
std::optional<TensorCore> TensorCoreOf(const trace::Gemm& gemm);
// `op`: kind and types are read. nullopt: not a convolution, product, attention or RNN, or not known.
std::optional<TensorCore> TensorCoreOf(const trace::Cudnn& cudnn, const Op& op);

}  // namespace dlhook::analyzer::ops
