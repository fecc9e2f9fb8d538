#include "analyzer/model/op_cost.h"

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

Count Half(Count count) { return count ? Count(*count / 2) : std::nullopt; }

// Whole bytes of `count` elements; unknown if the type's size is.
Count BytesOf(Count count, DataType type) {
  const uint32_t bits = format::TypeBits(type);
  const Count total = bits != 0 ? Times(count, bits) : std::nullopt;
  return total ? Count(*total / 8 + (*total % 8 != 0)) : std::nullopt;
}

// n + 1; on overflow negative, which makes a product unknown.
int64_t Next(int64_t n) { return n == INT64_MAX ? -1 : n + 1; }

// A triangle of an n x n matrix including the diagonal; n (n+1) is always even.
Count Triangle(int64_t n) { return Half(Product({n, Next(n)})); }

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

// Of real data, per LAPACK Working Note 41.
struct MatrixCounts {
  Count multiplications;
  Count additions;
  Count elements;  // of the operands
};

MatrixCounts CountsOf(const MatrixCall& op) {
  const bool left = op.side != "R";
  const int64_t order = left ? op.m : op.n, other = left ? op.n : op.m;
  const Count mn = Product({op.m, op.n}), nk = Product({op.n, op.k});
  const auto pairs = [](Count count, Count elements) { return MatrixCounts{count, count, elements}; };
  // 0 nonzeros: not recorded.
  const auto sparse = [&](int64_t columns) {
    return pairs(op.nonzeros > 0 ? Product({op.nonzeros, columns}) : std::nullopt, std::nullopt);
  };
  switch (op.kind) {
    case MatrixKind::kSymm:
    case MatrixKind::kHemm:
      return pairs(Times(mn, order), Sum({Triangle(order), mn, mn}));
    case MatrixKind::kSyrk:
    case MatrixKind::kHerk:
      return pairs(Times(Triangle(op.n), op.k), Sum({nk, Triangle(op.n)}));
    case MatrixKind::kSyr2k:
    case MatrixKind::kHer2k:
      return {Times(nk, op.n), Sum({Times(nk, op.n), op.n}), Sum({nk, nk, Triangle(op.n)})};
    case MatrixKind::kTrmm:
    case MatrixKind::kTrsm:
      return {Half(Product({other, order, Next(order)})),
              Half(Product({other, order, std::max<int64_t>(order - 1, 0)})), Sum({Triangle(order), mn})};
    case MatrixKind::kDgmm:
      return {mn, 0, Sum({mn, mn, order})};
    case MatrixKind::kSpmm:
      return sparse(op.n);
    case MatrixKind::kSddmm:
      return sparse(op.k);
    case MatrixKind::kSpmv:
      return sparse(1);
    default:
      return {};
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
  if (gemm.kind != GemmKind::kGemmt) return Product({per_product, gemm.m, gemm.n, gemm.k, batch});
  return Times(Times(Triangle(gemm.n), gemm.k), Product({per_product, batch}).value_or(-1));
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
  const MatrixCounts counts = CountsOf(op);
  const bool is_complex = IsComplex(op.type);
  return Times(Sum({Times(counts.multiplications, is_complex ? 6 : 1), Times(counts.additions, is_complex ? 2 : 1)}),
               BatchOf(op.batch));
}

std::optional<int64_t> MatrixBytes(const MatrixCall& op) {
  if (op.kind == MatrixKind::kGeam || op.kind == MatrixKind::kTransform) return MovedBytes(op);
  return Times(BytesOf(CountsOf(op).elements, op.type), BatchOf(op.batch));
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
  return Product({2, directions, Number(numbers, "l"), Number(numbers, "t"), gates, Number(numbers, "dhc"),
                  Number(numbers, "mb"), Sum({sic, slc}).value_or(-1)});
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
