// FLOPs and bytes of ops: the formulas and their sources are in op_cost.h.
#include "analyzer/model/op_cost.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "preload/format/record.h"

namespace dlhook::analyzer::inline model {
namespace {

using Count = std::optional<int64_t>;

Count Sum(std::initializer_list<Count> terms) {
  int64_t sum = 0;
  for (const Count& term : terms) {
    if (!term || __builtin_add_overflow(sum, *term, &sum)) return std::nullopt;
  }
  return sum;
}

Count Times(Count a, int64_t b) { return a ? Product({*a, b}) : std::nullopt; }

bool IsComplex(DataType type) {
  return type == DataType::kC32 || type == DataType::kC64 || type == DataType::kC16 || type == DataType::kCbf16;
}

// Whole bytes of `count` elements; unknown if the type's size is.
Count BytesOf(Count count, DataType type) {
  const uint32_t bits = format::TypeBits(type);
  const Count total = bits != 0 ? Times(count, bits) : std::nullopt;
  return total ? Count(*total / 8 + (*total % 8 != 0)) : std::nullopt;
}

// n + 1; on overflow negative, which makes a product unknown.
int64_t Next(int64_t n) { return n == INT64_MAX ? -1 : n + 1; }

// A triangle of an n x n matrix including the diagonal; n (n+1) is always even.
Count Triangle(int64_t n) {
  const Count twice = Product({n, Next(n)});
  return twice ? Count(*twice / 2) : std::nullopt;
}

int64_t BatchOf(int64_t batch) { return std::max<int64_t>(batch, 1); }

// The product of the values of `letter` + d, h, w; missing ones count as 1 (a convolution in one or two dimensions).
Count Spatial(const ProblemNumbers& numbers, absl::string_view letter) {
  Count product = 1;
  for (absl::string_view axis : {"d", "h", "w"}) {
    const auto it = numbers.find(absl::StrCat(letter, axis));
    if (it != numbers.end()) product = Times(product, it->second);
  }
  return product;
}

int64_t Number(const ProblemNumbers& numbers, absl::string_view key, int64_t otherwise = -1) {
  const auto it = numbers.find(key);
  return it == numbers.end() ? otherwise : it->second;
}

// Multiplications and additions of real data, per LAPACK Working Note 41.
struct MultiplyAdds {
  Count multiplications;
  Count additions;
};

MultiplyAdds TriangularCounts(int64_t triangle, int64_t other) {
  const Count diagonal_in = Product({other, triangle, Next(triangle)});
  const Count diagonal_out = Product({other, triangle, std::max<int64_t>(triangle - 1, 0)});
  return {diagonal_in ? Count(*diagonal_in / 2) : std::nullopt, diagonal_out ? Count(*diagonal_out / 2) : std::nullopt};
}

// 0 nonzeros: not recorded.
Count SparseCount(const MatrixCall& op, int64_t columns) {
  return op.nonzeros > 0 ? Product({op.nonzeros, columns}) : std::nullopt;
}

MultiplyAdds RealCounts(const MatrixCall& op) {
  const bool left = op.side != "R";
  switch (op.kind) {
    case MatrixKind::kSymm:
    case MatrixKind::kHemm: {
      const Count count = Product({op.m, op.n, left ? op.m : op.n});
      return {count, count};
    }
    case MatrixKind::kSyrk:
    case MatrixKind::kHerk: {
      const Count count = Times(Triangle(op.n), op.k);
      return {count, count};
    }
    case MatrixKind::kSyr2k:
    case MatrixKind::kHer2k: {
      const Count count = Product({op.k, op.n, op.n});
      return {count, Sum({count, op.n})};
    }
    case MatrixKind::kTrmm:
    case MatrixKind::kTrsm:
      return left ? TriangularCounts(op.m, op.n) : TriangularCounts(op.n, op.m);
    case MatrixKind::kDgmm:
      return {Product({op.m, op.n}), 0};
    case MatrixKind::kSpmm: {
      const Count count = SparseCount(op, op.n);
      return {count, count};
    }
    case MatrixKind::kSddmm: {
      const Count count = SparseCount(op, op.k);
      return {count, count};
    }
    case MatrixKind::kSpmv: {
      const Count count = SparseCount(op, 1);
      return {count, count};
    }
    default:
      return {};
  }
}

Count MatrixElements(const MatrixCall& op) {
  const int64_t order = op.side == "R" ? op.n : op.m;
  const Count mn = Product({op.m, op.n});
  const Count nk = Product({op.n, op.k});
  switch (op.kind) {
    case MatrixKind::kSymm:
    case MatrixKind::kHemm:
      return Sum({Triangle(order), mn, mn});
    case MatrixKind::kSyrk:
    case MatrixKind::kHerk:
      return Sum({nk, Triangle(op.n)});
    case MatrixKind::kSyr2k:
    case MatrixKind::kHer2k:
      return Sum({nk, nk, Triangle(op.n)});
    case MatrixKind::kTrmm:
    case MatrixKind::kTrsm:
      return Sum({Triangle(order), mn});
    case MatrixKind::kDgmm:
      return Sum({mn, mn, order});
    default:
      return std::nullopt;
  }
}

// Of C, and of B if used: cuBLAS accepts any pointer for a B that beta = 0 excludes, so B counts only if its leading
// dimension is set.
std::optional<int64_t> MovedBytes(const MatrixCall& op) {
  const Count mn = Product({op.m, op.n});
  const Count b = op.ldb > 0 && !op.trans_b.empty() ? BytesOf(mn, op.type) : Count(0);
  return Times(Sum({BytesOf(mn, op.type), b, BytesOf(mn, op.c_type)}), BatchOf(op.batch));
}

Count BytesOf(const Dims& dims, absl::string_view type) {
  const std::optional<int> bits = TypeBits(type);
  if (!bits || dims.empty()) return std::nullopt;
  const Count total = Times(ElementCount(dims), *bits);
  return total ? Count((*total + 7) / 8) : std::nullopt;
}

}  // namespace

std::optional<int64_t> Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

std::optional<int64_t> ElementCount(const Dims& dims) {
  Count product = 1;
  for (int64_t dim : dims) product = Times(product, dim);
  return product;
}

std::optional<int> TypeBits(absl::string_view type) {
  if (type == "boolean" || type == "e8m0" || absl::StartsWith(type, "f8_")) return 8;
  if (absl::StartsWith(type, "f4_")) return 4;
  for (int i = 1; *EnumName(static_cast<DataType>(i)) != '\0'; ++i) {
    if (type == EnumName(static_cast<DataType>(i))) return static_cast<int>(format::TypeBits(static_cast<DataType>(i)));
  }
  return std::nullopt;
}

std::optional<int64_t> GemmFlops(const GemmCall& gemm) {
  if (gemm.kind == GemmKind::kPack || gemm.kind == GemmKind::kHeuristic) return std::nullopt;
  if (gemm.groups > 0) {
    const bool is_known = gemm.flops != 0 || gemm.m != 0;  // else sizes are in device memory
    if (!is_known || gemm.flops > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(gemm.flops);
  }
  const int64_t batch = BatchOf(gemm.batch);
  const int64_t per_product = IsComplex(gemm.a_type) ? 8 : 2;
  switch (gemm.kind) {
    case GemmKind::kGemmt:
      return Times(Times(Triangle(gemm.n), gemm.k), Product({per_product, batch}).value_or(-1));
    default:
      return Product({per_product, gemm.m, gemm.n, gemm.k, batch});
  }
}

std::optional<int64_t> GemmBytes(const GemmCall& gemm) {
  const bool computes = gemm.kind != GemmKind::kPack && gemm.kind != GemmKind::kHeuristic;
  if (!computes || gemm.groups > 1 || (gemm.groups == 1 && gemm.m == 0)) return std::nullopt;
  const bool triangle = gemm.kind == GemmKind::kGemmt;
  const Count c = triangle ? Triangle(gemm.n) : Product({gemm.m, gemm.n});
  const int64_t m = triangle ? gemm.n : gemm.m;
  return Times(Sum({BytesOf(Product({m, gemm.k}), gemm.a_type), BytesOf(Product({gemm.k, gemm.n}), gemm.b_type),
                    BytesOf(c, gemm.c_type)}),
               BatchOf(gemm.batch));
}

std::optional<int64_t> MatrixFlops(const MatrixCall& op) {
  const MultiplyAdds counts = RealCounts(op);
  const bool is_complex = IsComplex(op.type);
  return Times(Sum({Times(counts.multiplications, is_complex ? 6 : 1), Times(counts.additions, is_complex ? 2 : 1)}),
               BatchOf(op.batch));
}

std::optional<int64_t> MatrixBytes(const MatrixCall& op) {
  if (op.kind == MatrixKind::kGeam || op.kind == MatrixKind::kTransform) return MovedBytes(op);
  return Times(BytesOf(MatrixElements(op), op.type), BatchOf(op.batch));
}

std::optional<int64_t> ConvolutionFlops(const Dims& result, const Dims& filter) {
  const Count taps = filter.empty() ? std::nullopt : ElementCount(Dims(filter.begin() + 1, filter.end()));
  return taps ? Times(Times(ElementCount(result), *taps), 2) : std::nullopt;
}

std::optional<int64_t> ConvolutionFlops(const ProblemNumbers& numbers, bool transposed) {
  const int64_t groups = std::max<int64_t>(Number(numbers, "g", 1), 1);
  const int64_t ic = Number(numbers, "ic");
  if (ic < 0) return std::nullopt;
  const Count points = Spatial(numbers, transposed ? "i" : "o");
  const Count kernel = Spatial(numbers, "k");
  if (!points || !kernel) return std::nullopt;
  const int64_t oc = Number(numbers, "oc");
  return ConvolutionFlops({Number(numbers, "mb"), oc, *points}, {oc, ic / groups, *kernel});
}

std::optional<int64_t> InnerProductFlops(const ProblemNumbers& numbers) {
  const Count spatial = Spatial(numbers, "i");
  return Times(spatial, Product({2, Number(numbers, "mb"), Number(numbers, "ic"), Number(numbers, "oc")}).value_or(-1));
}

std::optional<int64_t> MatMulFlops(const Dims& src, const Dims& dst) {
  if (src.empty() || dst.empty()) return std::nullopt;
  return Times(Times(ElementCount(dst), src.back()), 2);
}

std::optional<int64_t> RnnFlops(const ProblemNumbers& numbers, int gates, int directions) {
  const int64_t sic = Number(numbers, "sic");
  const int64_t slc = Number(numbers, "slc");
  if (sic < 0 || slc < 0 || gates <= 0) return std::nullopt;
  const Count inputs = Sum({sic, slc});
  if (!inputs) return std::nullopt;
  return Product({2, directions, Number(numbers, "l"), Number(numbers, "t"), gates, Number(numbers, "dhc"),
                  Number(numbers, "mb"), *inputs});
}

std::optional<int64_t> TensorBytes(const Op& op) {
  Count total = 0;
  bool any = false;
  for (const Tensor& tensor : op.tensors) {
    if (!tensor.defined) continue;
    const bool fused_sum = absl::StartsWith(tensor.role, "dst") && absl::c_count(op.post_ops, "sum") > 0;
    const int64_t times = tensor.role == "data" || fused_sum ? 2 : 1;
    total = Sum({total, Times(BytesOf(tensor.dims, tensor.type), times)});
    any = true;
  }
  return any ? total : std::nullopt;
}

}  // namespace dlhook::analyzer::model
