// Matrix products and the other level-3 functions made Ops: BLAS on the CPU, cuBLAS and cuBLASLt, sparse products.
#ifndef DLHOOK_ANALYZER_MODEL_GEMM_OP_H_
#define DLHOOK_ANALYZER_MODEL_GEMM_OP_H_

#include "analyzer/model/op.h"
#include "proto/op.pb.h"

namespace dlhook::analyzer::inline model {

// Each fills everything of `op` but what the definition itself says (function, family, time source, captured).
void DecodeGemm(const trace::Gemm& gemm, Op& op);
void DecodeMatrixOp(const trace::MatrixOp& matrix, Op& op);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_GEMM_OP_H_
