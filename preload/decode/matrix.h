// The other level-3 functions (symm, syrk, trsm …): arguments -> MatrixShape and operand addresses.
// Thread: any application thread, after the real function has returned.
// Pure: no vendor calls, no allocation.
// The members of MatrixArgs are the parameter names of preload/api/*.api.
#pragma once

#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline decode {

struct MatrixArgs {
  DataType type = DataType::kUnknown;
  MatrixKind kind = MatrixKind::kUnknown;
  char order = 'C';
  char side = 0;  // 0 if the function has no such argument
  char uplo = 0;
  char trans = 0;
  char diag = 0;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* b = nullptr;
  int64_t ldb = 0;
  const void* c = nullptr;
  int64_t ldc = 0;
  int64_t batch = 1;
};

// Needs kMatrixShapeWords and three addresses; operands that the function lacks are 0.
void DecodeMatrix(const MatrixArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
