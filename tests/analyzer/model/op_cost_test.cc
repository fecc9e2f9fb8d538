// FLOPs and bytes against hand counts: loops that perform and count the operations, for small sizes.
#include "analyzer/model/op_cost.h"

#include <gtest/gtest.h>

#include <string>

namespace dlhook::analyzer {
namespace {

GemmCall MakeGemm(GemmKind kind, DataType type, int64_t m, int64_t n, int64_t k) {
  return {.a_type = type,
          .b_type = type,
          .c_type = type,
          .trans_a = "N",
          .trans_b = "N",
          .m = m,
          .n = n,
          .k = k,
          .kind = kind};
}

MatrixCall MakeMatrix(MatrixKind kind, DataType type, const char* side, int64_t m, int64_t n, int64_t k) {
  return {.kind = kind, .type = type, .side = side, .trans = "N", .m = m, .n = n, .k = k, .c_type = type};
}

TEST(GemmFlopsTest, TwoForEachMultiplyAdd) {
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kF32, 3, 5, 7)), 210);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemv, DataType::kF64, 3, 1, 7)), 42);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGer, DataType::kF64, 3, 7, 1)), 42);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kCompute, DataType::kF32, 3, 5, 7)), 210);
}

TEST(GemmFlopsTest, ComplexMultiplyAddIsEight) {
  // (a+bi)(c+di): 4 multiplications, 2 additions; adding the product: 2 more.
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kC32, 3, 5, 7)), 8 * 105);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm3m, DataType::kC64, 3, 5, 7)),
            8 * 105);  // the same result
}

TEST(GemmFlopsTest, TriangleCountsItsDiagonal) {
  int64_t elements = 0;
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column <= row; ++column) ++elements;
  }
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemmt, DataType::kF32, 5, 5, 7)), elements * 2 * 7);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemmt, DataType::kF32, 0, 5, 7)),
            elements * 2 * 7);  // only n and k
}

TEST(GemmFlopsTest, BatchesGroupsAndPacking) {
  GemmCall batch = MakeGemm(GemmKind::kGemm, DataType::kF32, 3, 5, 7);
  batch.batch = 10;
  EXPECT_EQ(GemmFlops(batch), 2100);
  EXPECT_EQ(GemmBytes(batch), 10 * 4 * (21 + 35 + 15));
  batch.groups = 2;
  batch.flops = 12345;
  EXPECT_EQ(GemmFlops(batch), 12345);
  EXPECT_EQ(GemmBytes(batch), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kPack, DataType::kF32, 3, 5, 7)), std::nullopt);
}

TEST(GemmFlopsTest, HugeAndNegativeSizesAreNotKnown) {
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kF32, INT64_MAX, 5, 7)), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kF32, -1, 5, 7)), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemmt, DataType::kF32, 0, INT64_MAX, 7)), std::nullopt);
  EXPECT_EQ(GemmBytes(MakeGemm(GemmKind::kGemm, DataType::kUnknown, 3, 5, 7)), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kF32, 0, 5, 7)), 0);
}

TEST(GemmBytesTest, EveryOperandOnceInItsOwnType) {
  GemmCall gemm = MakeGemm(GemmKind::kGemm, DataType::kS8, 3, 5, 7);
  gemm.b_type = DataType::kU8;
  gemm.c_type = DataType::kS32;
  EXPECT_EQ(GemmBytes(gemm), 3 * 7 + 7 * 5 + 4 * 3 * 5);
}

TEST(GemmBytesTest, HalfBytesAreRoundedUpAndQuestionsMoveNothing) {
  GemmCall gemm = MakeGemm(GemmKind::kGemm, DataType::kF4E2m1, 3, 5, 7);
  gemm.c_type = DataType::kBf16;
  EXPECT_EQ(GemmBytes(gemm), 11 + 18 + 2 * 15);  // 21 and 35 elements of four bits
  EXPECT_EQ(GemmFlops(gemm), 210);
  EXPECT_EQ(GemmBytes(MakeGemm(GemmKind::kHeuristic, DataType::kF32, 3, 5, 7)), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kHeuristic, DataType::kF32, 3, 5, 7)), std::nullopt);
  EXPECT_EQ(GemmFlops(MakeGemm(GemmKind::kGemm, DataType::kC16, 3, 5, 7)), 8 * 105);
}

// LAPACK Working Note 41, appendix C, evaluated by hand for m = 6, n = 4, k = 5.
TEST(MatrixFlopsTest, WorkingNote41) {
  using M = MatrixKind;
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kSymm, DataType::kF32, "L", 6, 4, 0)), 144 + 144);  // m m n
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kSymm, DataType::kF32, "R", 6, 4, 0)), 96 + 96);    // m n n
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kHemm, DataType::kC32, "L", 6, 4, 0)), 6 * 144 + 2 * 144);
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kSyrk, DataType::kF32, "", 0, 4, 5)),
            50 + 50);  // k n (n+1) / 2
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kHerk, DataType::kC64, "", 0, 4, 5)), 6 * 50 + 2 * 50);
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kSyr2k, DataType::kF32, "", 0, 4, 5)),
            80 + 84);  // k n n, k n n + n
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kTrmm, DataType::kF32, "L", 6, 4, 0)),
            84 + 60);  // n m (m+-1) / 2
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kTrsm, DataType::kF32, "R", 6, 4, 0)),
            60 + 36);  // m n (n+-1) / 2
  EXPECT_EQ(MatrixFlops(MakeMatrix(M::kUnknown, DataType::kF32, "R", 6, 4, 0)), std::nullopt);
}

// Back substitution, counted: x_i = (b_i - sum over j > i of a_ij x_j) / a_ii, where a division counts as a
// multiplication.
TEST(MatrixFlopsTest, TriangularSolveAgainstALoop) {
  const int m = 6, n = 4;
  int64_t multiplications = 0, additions = 0;
  for (int column = 0; column < n; ++column) {
    for (int i = m - 1; i >= 0; --i) {
      for (int j = i + 1; j < m; ++j) {
        ++multiplications;
        ++additions;
      }
      ++multiplications;
    }
  }
  EXPECT_EQ(MatrixFlops(MakeMatrix(MatrixKind::kTrsm, DataType::kF64, "L", m, n, 0)), multiplications + additions);
}

TEST(MatrixBytesTest, TrianglesOnce) {
  using M = MatrixKind;
  EXPECT_EQ(MatrixBytes(MakeMatrix(M::kSymm, DataType::kF64, "L", 6, 4, 0)), 8 * (21 + 24 + 24));
  EXPECT_EQ(MatrixBytes(MakeMatrix(M::kTrsm, DataType::kF32, "R", 6, 4, 0)), 4 * (10 + 24));
  EXPECT_EQ(MatrixBytes(MakeMatrix(M::kSyrk, DataType::kF32, "", 0, 4, 5)), 4 * (20 + 10));
  EXPECT_EQ(MatrixBytes(MakeMatrix(M::kSyr2k, DataType::kF32, "", 0, 4, 5)), 4 * (20 + 20 + 10));
}

// A direct convolution, counted point by point, including products with the padding's zeros.
TEST(ConvolutionFlopsTest, AgainstALoop) {
  const ProblemNumbers numbers = *ParseProblemNumbers("g2mb3_ic4oc6_ih5oh5kh3sh1dh0ph1_iw7ow4kw2sw2dw0pw1");
  int64_t multiply_adds = 0;
  for (int image = 0; image < 3; ++image) {
    for (int out = 0; out < 6; ++out) {
      for (int point = 0; point < 5 * 4; ++point) {
        for (int in = 0; in < 4 / 2; ++in) multiply_adds += 3 * 2;
      }
    }
  }
  EXPECT_EQ(ConvolutionFlops(numbers, false), 2 * multiply_adds);
}

TEST(ConvolutionFlopsTest, MissingNumbersAreNotKnown) {
  EXPECT_EQ(ConvolutionFlops(*ParseProblemNumbers("mb3_ic4"), false), std::nullopt);
}

TEST(TypeBitsTest, SmallTypes) {
  EXPECT_EQ(TypeBits("f4_e2m1"), 4);
  EXPECT_EQ(TypeBits("f8_e4m3"), 8);
  EXPECT_EQ(TypeBits("undef"), std::nullopt);
  Op op;
  op.tensors = {{"src", "u4", "ab", "", true, {3, 5}}};
  EXPECT_EQ(TensorBytes(op), 8);  // 60 bits
}

}  // namespace
}  // namespace dlhook::analyzer
