// Matrix products, and operations expressed as products: arguments -> GemmShape and operand addresses.
// Thread: any application thread, after the real function has returned.
// Pure: no vendor calls, no allocation.
// The members of the *Args structs are the parameter names of preload/api/*.api.
//
// To add a decoder:
// 1. a struct and a function, here or in a new header;
// 2. a `decoder` line in preload/api/common.api that names them;
// 3. cases with values computed by hand in tests/preload/decode_test.cc.
#pragma once

#include <new>
#include <utility>

#include "preload/abi/arguments.h"
#include "preload/format/record.h"

namespace dlhook::inline decode {

struct GemmArgs {
  DataType a_type = DataType::kUnknown;
  DataType b_type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
  GemmKind kind = GemmKind::kGemm;
  char order = 'C';
  char trans_a = 'N';
  char trans_b = 'N';
  int64_t m = 0;  // 0 with kGemmt: it has no m, C is n by n
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

// y = alpha op(A) x + beta y: as a product with n = 1, where x and y are B and C, incx and incy their leading
// dimensions.
struct GemvArgs {
  DataType a_type = DataType::kUnknown;
  DataType b_type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
  char order = 'C';
  char trans = 'N';
  int64_t m = 0;  // of A, before op
  int64_t n = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* x = nullptr;
  int64_t incx = 0;
  const void* y = nullptr;
  int64_t incy = 0;
  int64_t batch = 1;
};

// A = alpha x yᵀ + A: as a product with k = 1, where x and y are A and B, incx and incy their leading dimensions.
struct GerArgs {
  DataType type = DataType::kUnknown;
  bool conjugate = false;  // gerc
  char order = 'C';
  int64_t m = 0;
  int64_t n = 0;
  const void* x = nullptr;
  int64_t incx = 0;
  const void* y = nullptr;
  int64_t incy = 0;
  const void* a = nullptr;
  int64_t lda = 0;
};

// Packing of one operand for a later product of m, n, k. Its address is stored as A or B, that of the packed copy as C.
struct GemmPackArgs {
  DataType a_type = DataType::kUnknown;
  DataType b_type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
  char order = 'C';
  char identifier = '?';  // 'A' or 'B'
  char trans = 'N';
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* src = nullptr;
  int64_t ld = 0;
  const void* dest = nullptr;
};

// Groups of products of equal shape: arrays have one element per group, those of operands one per product.
struct GemmBatchArgs {
  DataType a_type = DataType::kUnknown;
  DataType b_type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
  GemmKind kind = GemmKind::kGemm;
  char order = 'C';
  OptionArray trans_a;
  OptionArray trans_b;
  IntegerArray m;
  IntegerArray n;
  IntegerArray k;
  const void* const* a = nullptr;
  IntegerArray lda;
  const void* const* b = nullptr;
  IntegerArray ldb;
  const void* const* c = nullptr;
  IntegerArray ldc;
  int64_t groups = 0;
  IntegerArray group_size;
};

// What describes the product of the first group: GemmArgs or CudaGemmArgs.
template <typename Groups, typename Product>
void TakeFirstGroup(const Groups& groups, Product* product) {
  product->trans_a = groups.trans_a[0];
  product->trans_b = groups.trans_b[0];
  product->m = groups.m[0];
  product->n = groups.n[0];
  product->k = groups.k[0];
  product->lda = groups.lda[0];
  product->ldb = groups.ldb[0];
  product->ldc = groups.ldc[0];
}

// Multiplications and additions, counted as in analyzer/model/op_cost.cc: 2mnk; 8mnk for complex numbers, 6mnk if these
// need three real products. 0 if a dimension is not positive, UINT64_MAX on overflow.
uint64_t GemmFlops(GemmKind kind, DataType type, int64_t m, int64_t n, int64_t k);

// Needs kGroupedGemmShapeWords and three addresses. Shape and addresses are those of the first product, `batch` is the
// number of products in all groups.
void DecodeGemmBatch(const GemmBatchArgs& args, CallRecord* record);

// The others need kGemmShapeWords and three addresses. They are inline because they run in every hooked call: the
// compiler stores the arguments directly into the record.
__attribute__((always_inline)) inline void DecodeGemm(const GemmArgs& args, CallRecord* record) {
  const bool row_major = args.order == 'R';
  GemmArgs shape = args;
  // oneMKL's cblas_gemm_s8u8s32 takes the unsigned matrix as A in row-major order and as B in column-major order
  // (measured with 2024.2).
  if (row_major && args.a_type == DataType::kS8 && args.b_type == DataType::kU8) std::swap(shape.a_type, shape.b_type);
  new (record->shape()) GemmShape{
      shape.a_type,
      shape.b_type,
      args.c_type,
      row_major,
      OneOf<'N', 'T', 'C', 'R', 'P'>(args.trans_a),
      OneOf<'N', 'T', 'C', 'R', 'P'>(args.trans_b),
      args.kind,
      0,
      args.kind == GemmKind::kGemmt ? args.n : args.m,
      args.n,
      args.k,
      args.lda,
      args.ldb,
      args.ldc,
      args.batch,
  };
  record->SetAddresses(args.a, args.b, args.c);
}

inline void DecodeGemv(const GemvArgs& args, CallRecord* record) {
  const bool transposed = args.trans == 'T' || args.trans == 'C';
  GemmArgs gemm;
  gemm.a_type = args.a_type;
  gemm.b_type = args.b_type;
  gemm.c_type = args.c_type;
  gemm.kind = GemmKind::kGemv;
  gemm.order = args.order;
  gemm.trans_a = args.trans;
  gemm.m = transposed ? args.n : args.m;
  gemm.n = 1;
  gemm.k = transposed ? args.m : args.n;
  gemm.a = args.a;
  gemm.lda = args.lda;
  gemm.b = args.x;
  gemm.ldb = args.incx;
  gemm.c = args.y;
  gemm.ldc = args.incy;
  gemm.batch = args.batch;
  DecodeGemm(gemm, record);
}

inline void DecodeGer(const GerArgs& args, CallRecord* record) {
  GemmArgs gemm;
  gemm.a_type = gemm.b_type = gemm.c_type = args.type;
  gemm.kind = GemmKind::kGer;
  gemm.order = args.order;
  gemm.trans_b = args.conjugate ? 'C' : 'T';
  gemm.m = args.m;
  gemm.n = args.n;
  gemm.k = 1;
  gemm.a = args.x;
  gemm.lda = args.incx;
  gemm.b = args.y;
  gemm.ldb = args.incy;
  gemm.c = args.a;
  gemm.ldc = args.lda;
  DecodeGemm(gemm, record);
}

inline void DecodeGemmPack(const GemmPackArgs& args, CallRecord* record) {
  const bool is_b = args.identifier == 'B';
  GemmArgs gemm;
  gemm.a_type = args.a_type;
  gemm.b_type = args.b_type;
  gemm.c_type = args.c_type;
  gemm.kind = GemmKind::kPack;
  gemm.order = args.order;
  (is_b ? gemm.trans_b : gemm.trans_a) = args.trans;
  gemm.m = args.m;
  gemm.n = args.n;
  gemm.k = args.k;
  (is_b ? gemm.b : gemm.a) = args.src;
  (is_b ? gemm.ldb : gemm.lda) = args.ld;
  gemm.c = args.dest;
  DecodeGemm(gemm, record);
}

// The other level-3 functions (symm, syrk, trsm …): arguments -> MatrixShape and operand addresses.
// Thread: any application thread, after the real function has returned.
// Pure: no vendor calls, no allocation.
// The members of MatrixArgs are the parameter names of preload/api/*.api.

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
