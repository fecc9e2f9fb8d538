// cuSPARSE's products of sparse and dense operands: sizes from the descriptors, through the library's own getters ->
// MatrixShape.
// Thread: any application thread, after the real function has returned.
#pragma once

#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline decode {

// Needs kCudaMatrixShapeWords and 3 addresses, which remain zero: the operands are in the descriptors.
struct SparseArgs {
  MatrixKind kind = MatrixKind::kUnknown;
  const void* handle = nullptr;
  int32_t trans_a = 0;
  int32_t trans_b = 0;
  const void* a_descriptor = nullptr;  // sparse; for SDDMM dense
  const void* b_descriptor = nullptr;  // dense; for SpGEMM sparse
  const void* c_descriptor = nullptr;  // dense; for SDDMM and SpGEMM sparse
  const void* x_descriptor = nullptr;  // for SpMV: dense vectors
  const void* y_descriptor = nullptr;
  const void* real = nullptr;
};
void DecodeSparse(const SparseArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
