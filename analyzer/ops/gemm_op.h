// Decodes matrix products and other level-3 functions: BLAS on the CPU, cuBLAS and cuBLASLt, sparse products.
#ifndef DLHOOK_ANALYZER_OPS_GEMM_OP_H_
#define DLHOOK_ANALYZER_OPS_GEMM_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline ops {

// Each sets all fields of `op` except those of the definition itself (function, family, time source, captured).
void DecodeGemm(const trace::Gemm& gemm, Op& op);
void DecodeMatrixOp(const trace::MatrixOp& matrix, Op& op);

}  // namespace dlhook::analyzer::ops

#endif  // DLHOOK_ANALYZER_OPS_GEMM_OP_H_
