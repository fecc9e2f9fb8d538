// Matrix products, and operations expressed as products: arguments -> GemmShape and operand addresses.
// Thread: any application thread, after the real function has returned.
// Pure: no vendor calls, no allocation.
//
// To add a decoder:
// 1. a `decoder` line in preload/api/common.api, which names its function and what it takes: hook_arguments.h then declares it,
//    and a struct for it, with the names of the parameters as members;
// 2. the function;
// 3. cases with values computed by hand in tests/preload/decode_test.cc.
#pragma once

#include <new>
#include <utility>

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

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

// Groups of products of equal shape: arrays have one element per group, those of operands one per product. Shape and
// addresses are those of the first product, `batch` is the number of products in all groups.
void DecodeGemmBatch(const GemmBatchArgs& args, CallRecord* record);

// The others need kWords<GemmShape> and three addresses. They are inline because they run in every hooked call: the
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

// y = alpha op(A) x + beta y: as a product with n = 1, where x and y are B and C, incx and incy their leading
// dimensions. m and n are of A, before op.
inline void DecodeGemv(const GemvArgs& args, CallRecord* record) {
  const bool transposed = args.trans == 'T' || args.trans == 'C';
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.kind = GemmKind::kGemv;
  gemm.trans_a = args.trans;
  gemm.m = transposed ? args.n : args.m;
  gemm.n = 1;
  gemm.k = transposed ? args.m : args.n;
  gemm.b = args.x;
  gemm.ldb = args.incx;
  gemm.c = args.y;
  gemm.ldc = args.incy;
  DecodeGemm(gemm, record);
}

// A = alpha x yᵀ + A: as a product with k = 1, where x and y are A and B, incx and incy their leading dimensions.
inline void DecodeGer(const GerArgs& args, CallRecord* record) {
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.a_type = gemm.b_type = gemm.c_type = args.type;
  gemm.kind = GemmKind::kGer;
  gemm.trans_b = args.conjugate ? 'C' : 'T';
  gemm.k = 1;
  gemm.a = args.x;
  gemm.lda = args.incx;
  gemm.b = args.y;
  gemm.ldb = args.incy;
  gemm.c = args.a;
  gemm.ldc = args.lda;
  DecodeGemm(gemm, record);
}

// Packing of one operand for a later product of m, n, k. Its address is stored as A or B, that of the packed copy as C.
inline void DecodeGemmPack(const GemmPackArgs& args, CallRecord* record) {
  const bool is_b = args.identifier == 'B';
  GemmArgs gemm = GemmArgs::Like(args);
  gemm.kind = GemmKind::kPack;
  (is_b ? gemm.trans_b : gemm.trans_a) = args.trans;
  (is_b ? gemm.b : gemm.a) = args.src;
  (is_b ? gemm.ldb : gemm.lda) = args.ld;
  gemm.c = args.dest;
  DecodeGemm(gemm, record);
}

// The other level-3 functions (symm, syrk, trsm …): arguments -> MatrixShape and operand addresses.
// Operands that the function lacks are 0.
void DecodeMatrix(const MatrixArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
