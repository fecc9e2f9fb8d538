// Decoders of preload/decode, with arguments and records written by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "preload/abi/arguments.h"
#include "preload/decode/gemm.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace {

TEST(ArgumentsTest, FortranOptionIsUpperCaseLetterOrQuestionMark) {
  EXPECT_EQ(FortranOption("N"), 'N');
  EXPECT_EQ(FortranOption("t"), 'T');
  EXPECT_EQ(FortranOption("Conjugate"), 'C');
  EXPECT_EQ(FortranOption("1"), '?');
  EXPECT_EQ(FortranOption(""), '?');
  EXPECT_EQ(FortranOption("\xff"), '?');
  EXPECT_EQ(FortranOption(nullptr), '?');
}

TEST(ArgumentsTest, CblasOptionKnowsEveryEnumerator) {
  const std::vector<std::pair<int, char>> cases = {
      {101, 'R'}, {102, 'C'}, {111, 'N'}, {112, 'T'}, {113, 'C'}, {114, 'R'}, {121, 'U'}, {122, 'L'}, {131, 'N'},
      {132, 'U'}, {141, 'L'}, {142, 'R'}, {151, 'P'}, {161, 'A'}, {162, 'B'}, {0, '?'},   {-1, '?'}};
  for (const auto& [value, letter] : cases) EXPECT_EQ(CblasOption(value), letter) << value;
}

TEST(ArgumentsTest, CblasOptionIgnoresTheUpperHalfOfTheRegister) {
  EXPECT_EQ(CblasOption(static_cast<int64_t>(0xdeadbeef00000000u | 112u)), 'T');
}

TEST(ArgumentsTest, IntegersOfBothWidths) {
  const int32_t narrow[] = {-3, 7};
  const int64_t wide[] = {int64_t{1} << 40, 9};
  EXPECT_EQ(IntegerAt(&narrow[0]), -3);
  EXPECT_EQ(IntegerAt(&wide[0]), int64_t{1} << 40);
  EXPECT_EQ(IntegerAt(static_cast<const int32_t*>(nullptr)), 0);
  EXPECT_EQ(IntegerArray(narrow)[1], 7);
  EXPECT_EQ(IntegerArray(wide)[1], 9);
  EXPECT_EQ(IntegerArray()[0], 0);
}

TEST(GemmTest, ColumnMajorFromFortran) {
  GemmArgs args;
  args.a_type = args.b_type = args.c_type = DataType::kF32;
  args.trans_a = FortranOption("t");
  args.trans_b = FortranOption("N");
  args.m = 120;
  args.n = 64;
  args.k = 256;
  args.a = Pointer(0x1000);
  args.lda = 256;
  args.b = Pointer(0x2000);
  args.ldb = 257;
  args.c = Pointer(0x3000);
  args.ldc = 121;
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.a_type, DataType::kF32);
  EXPECT_EQ(shape.b_type, DataType::kF32);
  EXPECT_EQ(shape.c_type, DataType::kF32);
  EXPECT_EQ(shape.row_major, 0);
  EXPECT_EQ(shape.trans_a, 'T');
  EXPECT_EQ(shape.trans_b, 'N');
  EXPECT_EQ(shape.kind, GemmKind::kGemm);
  EXPECT_EQ(shape.m, 120);
  EXPECT_EQ(shape.n, 64);
  EXPECT_EQ(shape.k, 256);
  EXPECT_EQ(shape.lda, 256);
  EXPECT_EQ(shape.ldb, 257);
  EXPECT_EQ(shape.ldc, 121);
  EXPECT_EQ(shape.batch, 1);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x1000, 0x2000, 0x3000}));
  EXPECT_TRUE(record.untouched_behind());
}

TEST(GemmTest, RowMajorFromCblas) {
  GemmArgs args;
  args.order = CblasOption(101);
  args.trans_a = CblasOption(114);
  args.trans_b = CblasOption(113);
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.row_major, 1);
  EXPECT_EQ(shape.trans_a, 'R');
  EXPECT_EQ(shape.trans_b, 'C');
}

TEST(GemmTest, UnknownTransposeIsQuestionMark) {
  GemmArgs args;
  args.trans_a = 'X';
  args.trans_b = 'U';
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().trans_a, '?');
  EXPECT_EQ(record.shape<GemmShape>().trans_b, '?');
}

TEST(GemmTest, PackedOperandOfCompute) {
  GemmArgs args;
  args.kind = GemmKind::kCompute;
  args.trans_a = CblasOption(151);
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().kind, GemmKind::kCompute);
  EXPECT_EQ(record.shape<GemmShape>().trans_a, 'P');
}

TEST(GemmTest, GemmtHasSquareC) {
  GemmArgs args;
  args.kind = GemmKind::kGemmt;
  args.n = 30;
  args.k = 7;
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().m, 30);
  EXPECT_EQ(record.shape<GemmShape>().n, 30);
}

// Measured with oneMKL 2024.2: 200 as uint8 in A times 1 is 200 in row-major order, -56 in
// column-major order.
TEST(GemmTest, MixedSignsFollowTheOrder) {
  GemmArgs args;
  args.a_type = DataType::kS8;
  args.b_type = DataType::kU8;
  args.c_type = DataType::kS32;
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemm(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().a_type, DataType::kS8);
  EXPECT_EQ(record.shape<GemmShape>().b_type, DataType::kU8);
  args.order = 'R';
  DecodeGemm(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().a_type, DataType::kU8);
  EXPECT_EQ(record.shape<GemmShape>().b_type, DataType::kS8);
}

GemvArgs Gemv(char trans) {
  GemvArgs args;
  args.a_type = args.b_type = args.c_type = DataType::kC64;
  args.trans = trans;
  args.m = 5;
  args.n = 3;
  args.a = Pointer(0x10);
  args.lda = 6;
  args.x = Pointer(0x20);
  args.incx = 2;
  args.y = Pointer(0x30);
  args.incy = -1;
  return args;
}

TEST(GemvTest, IsAProductWithOneColumn) {
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemv(Gemv('N'), record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.kind, GemmKind::kGemv);
  EXPECT_EQ(shape.c_type, DataType::kC64);
  EXPECT_EQ(shape.m, 5);
  EXPECT_EQ(shape.n, 1);
  EXPECT_EQ(shape.k, 3);
  EXPECT_EQ(shape.lda, 6);
  EXPECT_EQ(shape.ldb, 2);
  EXPECT_EQ(shape.ldc, -1);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x10, 0x20, 0x30}));
}

TEST(GemvTest, TransposeSwapsMAndK) {
  for (const char trans : {'T', 'C'}) {
    TestRecord record(kWords<GemmShape>, 3);
    DecodeGemv(Gemv(trans), record.record());
    EXPECT_EQ(record.shape<GemmShape>().trans_a, trans);
    EXPECT_EQ(record.shape<GemmShape>().m, 3);
    EXPECT_EQ(record.shape<GemmShape>().k, 5);
  }
}

TEST(GerTest, IsAProductWithOneRowOfB) {
  GerArgs args;
  args.type = DataType::kC32;
  args.conjugate = true;
  args.order = 'R';
  args.m = 5;
  args.n = 3;
  args.x = Pointer(0x10);
  args.incx = 1;
  args.y = Pointer(0x20);
  args.incy = 2;
  args.a = Pointer(0x30);
  args.lda = 8;
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGer(args, record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.kind, GemmKind::kGer);
  EXPECT_EQ(shape.a_type, DataType::kC32);
  EXPECT_EQ(shape.row_major, 1);
  EXPECT_EQ(shape.trans_a, 'N');
  EXPECT_EQ(shape.trans_b, 'C');
  EXPECT_EQ(shape.m, 5);
  EXPECT_EQ(shape.n, 3);
  EXPECT_EQ(shape.k, 1);
  EXPECT_EQ(shape.lda, 1);
  EXPECT_EQ(shape.ldb, 2);
  EXPECT_EQ(shape.ldc, 8);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x10, 0x20, 0x30}));
}

TEST(GemmPackTest, SourceStandsForTheOperandThatIsPacked) {
  GemmPackArgs args;
  args.trans = 'T';
  args.m = 2;
  args.n = 3;
  args.k = 4;
  args.src = Pointer(0x10);
  args.ld = 9;
  args.dest = Pointer(0x20);
  args.identifier = CblasOption(161);
  TestRecord record(kWords<GemmShape>, 3);
  DecodeGemmPack(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().kind, GemmKind::kPack);
  EXPECT_EQ(record.shape<GemmShape>().trans_a, 'T');
  EXPECT_EQ(record.shape<GemmShape>().lda, 9);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x10, 0, 0x20}));
  args.identifier = FortranOption("b");
  DecodeGemmPack(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().trans_a, 'N');
  EXPECT_EQ(record.shape<GemmShape>().trans_b, 'T');
  EXPECT_EQ(record.shape<GemmShape>().ldb, 9);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0x10, 0x20}));
}

TEST(GemmFlopsTest, CountsMultiplicationsAndAdditions) {
  EXPECT_EQ(GemmFlops(GemmKind::kGemm, DataType::kF32, 2, 3, 4), 48u);
  EXPECT_EQ(GemmFlops(GemmKind::kGemm, DataType::kC64, 2, 3, 4), 192u);
  EXPECT_EQ(GemmFlops(GemmKind::kGemm3m, DataType::kC64, 2, 3, 4), 144u);
  EXPECT_EQ(GemmFlops(GemmKind::kGemm, DataType::kS32, 0, 3, 4), 0u);
  EXPECT_EQ(GemmFlops(GemmKind::kGemm, DataType::kF32, 2, -3, 4), 0u);
  EXPECT_EQ(GemmFlops(GemmKind::kGemm, DataType::kF32, INT64_MAX, INT64_MAX, 1), UINT64_MAX);
}

// Two products of 2x3x4 and one of 5x6x7.
struct Batch {
  int32_t trans_a[2] = {112, 111};
  int32_t trans_b[2] = {111, 113};
  int32_t m[2] = {2, 5};
  int32_t n[2] = {3, 6};
  int32_t k[2] = {4, 7};
  int32_t lda[2] = {40, 70};
  int32_t ldb[2] = {41, 71};
  int32_t ldc[2] = {42, 72};
  int32_t group_size[2] = {2, 1};
  const void* a[3] = {Pointer(0x100), Pointer(0x101), Pointer(0x102)};
  const void* b[3] = {Pointer(0x200), Pointer(0x201), Pointer(0x202)};
  const void* c[3] = {Pointer(0x300), Pointer(0x301), Pointer(0x302)};

  GemmBatchArgs args() const {
    GemmBatchArgs args;
    args.a_type = args.b_type = args.c_type = DataType::kF64;
    args.order = 'R';
    args.trans_a = OptionArray(trans_a);
    args.trans_b = OptionArray(trans_b);
    args.m = IntegerArray(m);
    args.n = IntegerArray(n);
    args.k = IntegerArray(k);
    args.a = a;
    args.lda = IntegerArray(lda);
    args.b = b;
    args.ldb = IntegerArray(ldb);
    args.c = c;
    args.ldc = IntegerArray(ldc);
    args.groups = 2;
    args.group_size = IntegerArray(group_size);
    return args;
  }
};

TEST(GemmBatchTest, FirstGroupsShapeAndTotals) {
  Batch batch;
  TestRecord record(kWords<GemmShape, GemmGroups>, 3);
  DecodeGemmBatch(batch.args(), record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.c_type, DataType::kF64);
  EXPECT_EQ(shape.row_major, 1);
  EXPECT_EQ(shape.trans_a, 'T');
  EXPECT_EQ(shape.trans_b, 'N');
  EXPECT_EQ(shape.m, 2);
  EXPECT_EQ(shape.n, 3);
  EXPECT_EQ(shape.k, 4);
  EXPECT_EQ(shape.lda, 40);
  EXPECT_EQ(shape.ldb, 41);
  EXPECT_EQ(shape.ldc, 42);
  EXPECT_EQ(shape.batch, 3);
  const auto groups = record.shape<GemmGroups>(kWords<GemmShape>);
  EXPECT_EQ(groups.groups, 2);
  EXPECT_EQ(groups.flops, 2u * 48 + 420);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x100, 0x200, 0x300}));
  EXPECT_TRUE(record.untouched_behind());
}

TEST(GemmBatchTest, LettersAndWideIntegersFromFortran) {
  Batch batch;
  const int64_t m[2] = {1, 1}, n[2] = {1, 1}, k[2] = {1, 1}, size[2] = {1, 4};
  GemmBatchArgs args = batch.args();
  args.trans_a = OptionArray("cn");
  args.m = IntegerArray(m);
  args.n = IntegerArray(n);
  args.k = IntegerArray(k);
  args.group_size = IntegerArray(size);
  TestRecord record(kWords<GemmShape, GemmGroups>, 3);
  DecodeGemmBatch(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().trans_a, 'C');
  EXPECT_EQ(record.shape<GemmShape>().batch, 5);
  EXPECT_EQ(record.shape<GemmGroups>(kWords<GemmShape>).flops, 10u);
}

TEST(GemmBatchTest, NothingIsReadWithoutGroups) {
  for (const int64_t groups : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    GemmBatchArgs args;
    args.groups = groups;
    args.a = args.b = args.c = reinterpret_cast<const void* const*>(8);
    args.m = IntegerArray(reinterpret_cast<const int32_t*>(8));
    TestRecord record(kWords<GemmShape, GemmGroups>, 3);
    DecodeGemmBatch(args, record.record());
    EXPECT_EQ(record.shape<GemmShape>().batch, 0);
    EXPECT_EQ(record.shape<GemmGroups>(kWords<GemmShape>).groups, 0);
    EXPECT_EQ(record.shape<GemmGroups>(kWords<GemmShape>).flops, 0u);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
  }
}

TEST(GemmBatchTest, OperandsAreNotReadWithoutProducts) {
  Batch batch;
  batch.group_size[0] = 0;
  batch.group_size[1] = -1;
  GemmBatchArgs args = batch.args();
  args.a = args.b = args.c = reinterpret_cast<const void* const*>(8);
  TestRecord record(kWords<GemmShape, GemmGroups>, 3);
  DecodeGemmBatch(args, record.record());
  EXPECT_EQ(record.shape<GemmShape>().batch, 0);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
}

TEST(MatrixTest, TriangularSolve) {
  MatrixArgs args;
  args.type = DataType::kF64;
  args.kind = MatrixKind::kTrsm;
  args.order = CblasOption(101);
  args.side = CblasOption(142);
  args.uplo = CblasOption(122);
  args.trans = CblasOption(112);
  args.diag = CblasOption(132);
  args.m = 8;
  args.n = 9;
  args.a = Pointer(0x10);
  args.lda = 10;
  args.b = Pointer(0x20);
  args.ldb = 11;
  TestRecord record(kWords<MatrixShape>, 3);
  DecodeMatrix(args, record.record());
  const auto shape = record.shape<MatrixShape>();
  EXPECT_EQ(shape.kind, MatrixKind::kTrsm);
  EXPECT_EQ(shape.type, DataType::kF64);
  EXPECT_EQ(shape.row_major, 1);
  EXPECT_EQ(shape.side, 'R');
  EXPECT_EQ(shape.uplo, 'L');
  EXPECT_EQ(shape.trans, 'T');
  EXPECT_EQ(shape.diag, 'U');
  EXPECT_EQ(shape.reserved, 0);
  EXPECT_EQ(shape.m, 8);
  EXPECT_EQ(shape.n, 9);
  EXPECT_EQ(shape.k, 0);
  EXPECT_EQ(shape.lda, 10);
  EXPECT_EQ(shape.ldb, 11);
  EXPECT_EQ(shape.ldc, 0);
  EXPECT_EQ(shape.batch, 1);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x10, 0x20, 0}));
  EXPECT_TRUE(record.untouched_behind());
}

TEST(MatrixTest, AbsentOptionsStayZeroAndUnknownOnesAreMarked) {
  MatrixArgs args;
  args.kind = MatrixKind::kSyrk;
  args.uplo = FortranOption("u");
  args.trans = FortranOption("x");
  args.n = 4;
  args.k = 5;
  args.c = Pointer(0x30);
  TestRecord record(kWords<MatrixShape>, 3);
  DecodeMatrix(args, record.record());
  const auto shape = record.shape<MatrixShape>();
  EXPECT_EQ(shape.side, 0);
  EXPECT_EQ(shape.diag, 0);
  EXPECT_EQ(shape.uplo, 'U');
  EXPECT_EQ(shape.trans, '?');
  EXPECT_EQ(shape.m, 0);
  EXPECT_EQ(shape.k, 5);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0x30}));
}

}  // namespace
}  // namespace dlhook
