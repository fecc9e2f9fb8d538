#include "preload/decode/gemm.h"

namespace dlhook::inline decode {
namespace {

uint64_t MultiplySaturated(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t AddSaturated(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

bool IsComplex(DataType type) { return type == DataType::kC32 || type == DataType::kC64; }

struct BatchTotals {
  int64_t products = 0;
  uint64_t flops = 0;
};

BatchTotals SumGroups(const GemmBatchArgs& args) {
  BatchTotals totals;
  for (int64_t group = 0; group < args.groups; ++group) {
    const int64_t size = args.group_size[group];
    if (size <= 0) continue;
    totals.products += size;
    const uint64_t flops = GemmFlops(args.kind, args.c_type, args.m[group], args.n[group], args.k[group]);
    totals.flops = AddSaturated(totals.flops, MultiplySaturated(flops, static_cast<uint64_t>(size)));
  }
  return totals;
}

// The operand arrays are read only if there is a product, for which the real function had to read them, too.
const void* First(const void* const* operands, const BatchTotals& totals) {
  return totals.products > 0 && operands != nullptr ? operands[0] : nullptr;
}

}  // namespace

uint64_t GemmFlops(GemmKind kind, DataType type, int64_t m, int64_t n, int64_t k) {
  if (m <= 0 || n <= 0 || k <= 0) return 0;
  uint64_t flops = kind == GemmKind::kGemm3m ? 6 : IsComplex(type) ? 8 : 2;
  for (const int64_t factor : {m, n, k}) flops = MultiplySaturated(flops, static_cast<uint64_t>(factor));
  return flops;
}

void DecodeGemmBatch(const GemmBatchArgs& args, CallRecord* record) {
  const BatchTotals totals = SumGroups(args);
  GemmArgs first = GemmArgs::Like(args);
  if (args.groups > 0) TakeFirstGroup(args, &first);
  first.a = First(args.a, totals);
  first.b = First(args.b, totals);
  first.c = First(args.c, totals);
  first.batch = totals.products;
  DecodeGemm(first, record);
  new (record->shape_behind<GemmShape>()) GemmGroups{args.groups > 0 ? args.groups : 0, totals.flops};
}

void DecodeMatrix(const MatrixArgs& args, CallRecord* record) {
  new (record->shape()) MatrixShape{
      args.kind,
      args.type,
      args.order == 'R',
      OneOf<'\0', 'L', 'R'>(args.side),
      OneOf<'\0', 'U', 'L'>(args.uplo),
      OneOf<'\0', 'N', 'T', 'C', 'R'>(args.trans),
      OneOf<'\0', 'N', 'U'>(args.diag),
      0,
      args.m,
      args.n,
      args.k,
      args.lda,
      args.ldb,
      args.ldc,
      args.batch,
  };
  record->SetAddresses(args.a, args.b, args.c);
}

}  // namespace dlhook::inline decode
