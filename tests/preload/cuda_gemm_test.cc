// cuBLAS: products, groups of them, matrix-vector products and the other level-3 functions.
#include "preload/decode/cuda_gemm.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace cuda_gemm_test {

const void* Real() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

class CudaGemmTest : public ::testing::Test {
 protected:
  void SetUp() override { *FakeRuntimeAnswers() = {}; }
};

CudaGemmArgs Example() {
  CudaGemmArgs args;
  args.type = DataType::kF32;
  args.handle = Pointer(0x10);
  args.trans_a = 1;
  args.m = 120, args.n = 64, args.k = 256;
  args.a = Pointer(0x1000), args.b = Pointer(0x2000), args.c = Pointer(0x3000);
  args.lda = 256, args.ldb = 256, args.ldc = 120;
  args.real = Real();
  return args;
}

CudaGemmShape Decode(const CudaGemmArgs& args, std::vector<uint64_t>* addresses = nullptr) {
  TestRecord record(kWords<CudaGemmShape>, 3);
  DecodeCudaGemm(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  if (addresses != nullptr) *addresses = record.addresses();
  return record.shape<CudaGemmShape>();
}

TEST_F(CudaGemmTest, Plain) {
  FakeRuntimeAnswers()->math_mode = 3;
  std::vector<uint64_t> addresses;
  const CudaGemmShape shape = Decode(Example(), &addresses);
  EXPECT_EQ(shape.gemm.a_type, DataType::kF32);
  EXPECT_EQ(shape.gemm.b_type, DataType::kF32);
  EXPECT_EQ(shape.gemm.c_type, DataType::kF32);
  EXPECT_EQ(shape.gemm.row_major, 0);
  EXPECT_EQ(shape.gemm.trans_a, 'T');
  EXPECT_EQ(shape.gemm.trans_b, 'N');
  EXPECT_EQ(shape.gemm.kind, GemmKind::kGemm);
  EXPECT_EQ(shape.gemm.m, 120);
  EXPECT_EQ(shape.gemm.n, 64);
  EXPECT_EQ(shape.gemm.k, 256);
  EXPECT_EQ(shape.gemm.lda, 256);
  EXPECT_EQ(shape.gemm.ldb, 256);
  EXPECT_EQ(shape.gemm.ldc, 120);
  EXPECT_EQ(shape.gemm.batch, 1);
  EXPECT_EQ(shape.lt, 0);
  EXPECT_EQ(shape.math_mode, 3);
  EXPECT_EQ(shape.compute_type, -1);
  EXPECT_EQ(shape.scale_type, -1);
  EXPECT_EQ(shape.heuristic_rank, -1);
  EXPECT_EQ(shape.algorithm, -1);
  EXPECT_EQ(shape.chooser, Chooser::kLibrary);
  EXPECT_EQ(shape.order_a, 0);
  EXPECT_EQ(shape.order_d, 0);
  EXPECT_EQ(shape.alignment_log2, 5);  // ldc: 480 bytes
  EXPECT_EQ(shape.captured, 0);
  EXPECT_EQ(addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0x3000}));
}

TEST_F(CudaGemmTest, TypesOfTheArgumentsComeBeforeTheName) {
  CudaGemmArgs args = Example();
  args.a_type = 2, args.b_type = 14, args.c_type = 0;
  args.compute_type = 68, args.algorithm = 99;
  const CudaGemmShape shape = Decode(args);
  EXPECT_EQ(shape.gemm.a_type, DataType::kF16);
  EXPECT_EQ(shape.gemm.b_type, DataType::kBf16);
  EXPECT_EQ(shape.gemm.c_type, DataType::kF32);
  EXPECT_EQ(shape.compute_type, 68);
  EXPECT_EQ(shape.algorithm, 99);
}

TEST_F(CudaGemmTest, WhoChose) {
  CudaGemmArgs args = Example();
  const std::pair<int32_t, Chooser> cases[] = {{-1, Chooser::kLibrary},   {99, Chooser::kLibrary},
                                               {999, Chooser::kProfiled}, {0, Chooser::kFixed},
                                               {23, Chooser::kFixed},     {115, Chooser::kFixed}};
  for (const auto& [algorithm, chooser] : cases) {
    args.algorithm = algorithm;
    EXPECT_EQ(Decode(args).chooser, chooser) << algorithm;
  }
}

TEST_F(CudaGemmTest, Letters) {
  CudaGemmArgs args = Example();
  const char letters[] = {'N', 'T', 'C', 'R', '?'};
  for (int32_t operation = 0; operation < 5; ++operation) {
    args.trans_a = operation;
    args.trans_b = 4 - operation;
    EXPECT_EQ(Decode(args).gemm.trans_a, letters[operation]);
    EXPECT_EQ(Decode(args).gemm.trans_b, letters[4 - operation]);
  }
}

TEST_F(CudaGemmTest, Alignment) {
  struct Case {
    uint64_t a, b, c;
    int64_t lda, stride_c;
    uint8_t log2;
  };
  for (const Case& c : {Case{0x1000, 0x2000, 0x3000, 64, 0, 8}, Case{0x1000, 0x2000, 0x3000, 4, 0, 4},
                        Case{0x1002, 0x2000, 0x3000, 64, 0, 1}, Case{0x1000, 0x2010, 0x3000, 64, 0, 4},
                        Case{0x1000, 0x2000, 0x3001, 64, 0, 0}, Case{0x1000, 0x2000, 0x3000, 64, 2, 3},
                        Case{0x1000, 0x2000, 0x3000, 64, 6400, 8}}) {
    CudaGemmArgs args = Example();
    args.a = Pointer(c.a), args.b = Pointer(c.b), args.c = Pointer(c.c);
    args.lda = c.lda, args.ldb = args.ldc = 64;
    args.stride_c = c.stride_c;
    EXPECT_EQ(Decode(args).alignment_log2, c.log2) << c.a << " " << c.lda;
  }
  CudaGemmArgs half = Example();
  half.a_type = 2, half.lda = 4, half.ldb = half.ldc = 64;
  EXPECT_EQ(Decode(half).alignment_log2, 3);
}

TEST_F(CudaGemmTest, StridedAndBatched) {
  CudaGemmArgs args = Example();
  args.batch = 12;
  args.stride_a = 30720;
  EXPECT_EQ(Decode(args).gemm.batch, 12);
  args.pointer_arrays = true;  // a, b, c are arrays in device memory: neither operands nor aligned
  args.a = Pointer(0x1001);
  args.stride_a = 1;
  std::vector<uint64_t> addresses;
  EXPECT_EQ(Decode(args, &addresses).alignment_log2, 5);
  EXPECT_EQ(addresses, (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(CudaGemmTest, WithoutGettersTheMathModeIsUnknown) {
  FakeRuntimeAnswers()->status = 1;
  FakeRuntimeAnswers()->math_mode = 2;
  EXPECT_EQ(Decode(Example()).math_mode, -1);
  CudaGemmArgs args = Example();
  args.real = reinterpret_cast<const void*>(&getpid);  // a library without them
  EXPECT_EQ(Decode(args).math_mode, -1);
  EXPECT_EQ(Decode(args).gemm.m, 120);
  FakeRuntimeAnswers()->status = 0;
  args = Example();
  args.handle = nullptr;
  EXPECT_EQ(Decode(args).math_mode, -1);
}

TEST_F(CudaGemmTest, TheHandlesStreamIsAskedForWhileSomethingIsCaptured) {
  Decode(Example());
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 1);  // the math mode
  FakeRuntimeAnswers()->handle_stream = Pointer(0x77);
  FakeRuntimeAnswers()->capture_status = 1;
  TrackBeginCapture({Pointer(0x77), 0, Real()});
  EXPECT_EQ(Decode(Example()).captured, 1);
  EXPECT_EQ(FakeRuntimeAnswers()->asked_stream, Pointer(0x77));
  FakeRuntimeAnswers()->capture_status = 0;
  EXPECT_EQ(Decode(Example()).captured, 0);
  TrackEndCapture({});
}

TEST_F(CudaGemmTest, Groups) {
  const int32_t trans_a[] = {1, 0, 0}, trans_b[] = {0, 1, 0};
  const int32_t m[] = {2, 3, 100}, n[] = {4, 5, 100}, k[] = {6, 7, 100}, lda[] = {8, 9, 9}, ldb[] = {16, 9, 9},
                ldc[] = {32, 9, 9};
  const int32_t sizes[] = {10, 20, -1};
  CudaGroupedGemmArgs args;
  args.type = DataType::kF64;
  args.handle = Pointer(0x10);
  args.trans_a = trans_a, args.trans_b = trans_b;
  args.m = IntegerArray(m), args.n = IntegerArray(n), args.k = IntegerArray(k);
  args.lda = IntegerArray(lda), args.ldb = IntegerArray(ldb), args.ldc = IntegerArray(ldc);
  args.groups = 3;
  args.group_size = IntegerArray(sizes);
  args.real = Real();
  TestRecord record(kWords<CudaGemmShape, GemmGroups>, 3);
  DecodeCudaGroupedGemm(args, record.record());
  const auto shape = record.shape<CudaGemmShape>();
  const auto groups = record.shape<GemmGroups>(kWords<CudaGemmShape>);
  EXPECT_EQ(shape.gemm.a_type, DataType::kF64);
  EXPECT_EQ(shape.gemm.trans_a, 'T');
  EXPECT_EQ(shape.gemm.trans_b, 'N');
  EXPECT_EQ(shape.gemm.m, 2);
  EXPECT_EQ(shape.gemm.n, 4);
  EXPECT_EQ(shape.gemm.k, 6);
  EXPECT_EQ(shape.gemm.lda, 8);
  EXPECT_EQ(shape.gemm.ldb, 16);
  EXPECT_EQ(shape.gemm.ldc, 32);
  EXPECT_EQ(shape.gemm.batch, 30);
  EXPECT_EQ(shape.alignment_log2, 6);
  EXPECT_EQ(groups.groups, 3);
  EXPECT_EQ(groups.flops, 10u * 2 * 2 * 4 * 6 + 20u * 2 * 3 * 5 * 7);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_TRUE(record.untouched_behind());
  TestRecord none(kWords<CudaGemmShape, GemmGroups>, 3, 7);
  DecodeCudaGroupedGemm({}, none.record());
  EXPECT_EQ(none.shape<GemmGroups>(kWords<CudaGemmShape>).groups, 0);
  EXPECT_EQ(none.shape<CudaGemmShape>().gemm.batch, 0);
}

TEST_F(CudaGemmTest, MatrixVector) {
  for (int32_t trans : {0, 1}) {
    CudaGemvArgs args;
    args.type = DataType::kF16;
    args.trans = trans;
    args.m = 30, args.n = 50;
    args.a = Pointer(0x1000), args.lda = 32, args.x = Pointer(0x2000), args.incx = 2, args.y = Pointer(0x3000),
    args.incy = 3;
    args.batch = 4;
    args.real = Real();
    TestRecord record(kWords<CudaGemmShape>, 3);
    DecodeCudaGemv(args, record.record());
    const auto shape = record.shape<CudaGemmShape>();
    EXPECT_EQ(shape.gemm.kind, GemmKind::kGemv);
    EXPECT_EQ(shape.gemm.a_type, DataType::kF16);
    EXPECT_EQ(shape.gemm.trans_a, trans == 0 ? 'N' : 'T');
    EXPECT_EQ(shape.gemm.m, trans == 0 ? 30 : 50);
    EXPECT_EQ(shape.gemm.n, 1);
    EXPECT_EQ(shape.gemm.k, trans == 0 ? 50 : 30);
    EXPECT_EQ(shape.gemm.lda, 32);
    EXPECT_EQ(shape.gemm.ldb, 2);
    EXPECT_EQ(shape.gemm.ldc, 3);
    EXPECT_EQ(shape.gemm.batch, 4);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x1000, 0x2000, 0x3000}));
  }
}

struct MatrixResult {
  MatrixShape shape;
  CudaMatrixShape cuda;
  std::vector<uint64_t> addresses;
};

MatrixResult Decode(const CudaMatrixArgs& args) {
  TestRecord record(kWords<MatrixShape, CudaMatrixShape>, 3);
  DecodeCudaMatrix(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  return {record.shape<MatrixShape>(), record.shape<CudaMatrixShape>(kWords<MatrixShape>), record.addresses()};
}

TEST_F(CudaGemmTest, TriangularSolve) {
  CudaMatrixArgs args;
  args.type = DataType::kF64;
  args.kind = MatrixKind::kTrsm;
  args.side = 1, args.uplo = 1, args.trans = 2, args.diag = 1;
  args.m = 5, args.n = 6, args.a = Pointer(0x1000), args.lda = 7, args.b = Pointer(0x2000), args.ldb = 8,
  args.batch = 9;
  args.real = Real();
  const MatrixResult result = Decode(args);
  EXPECT_EQ(result.shape.kind, MatrixKind::kTrsm);
  EXPECT_EQ(result.shape.type, DataType::kF64);
  EXPECT_EQ(result.shape.side, 'R');
  EXPECT_EQ(result.shape.uplo, 'U');
  EXPECT_EQ(result.shape.trans, 'C');
  EXPECT_EQ(result.shape.diag, 'U');
  EXPECT_EQ(result.shape.m, 5);
  EXPECT_EQ(result.shape.n, 6);
  EXPECT_EQ(result.shape.lda, 7);
  EXPECT_EQ(result.shape.ldb, 8);
  EXPECT_EQ(result.shape.batch, 9);
  EXPECT_EQ(result.cuda.trans_b, 0);
  EXPECT_EQ(result.cuda.c_type, DataType::kUnknown);
  EXPECT_EQ(result.addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0}));
  args.side = args.uplo = args.trans = args.diag = 0;
  const MatrixResult zero = Decode(args);
  EXPECT_EQ(zero.shape.side, 'L');
  EXPECT_EQ(zero.shape.uplo, 'L');
  EXPECT_EQ(zero.shape.trans, 'N');
  EXPECT_EQ(zero.shape.diag, 'N');
  args.pointer_arrays = true;
  EXPECT_EQ(Decode(args).addresses, (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(CudaGemmTest, SumsDiagonalsAndMixedTypes) {
  CudaMatrixArgs geam;
  geam.kind = MatrixKind::kGeam;
  geam.trans_a = 1, geam.trans_b = 0;
  geam.real = Real();
  EXPECT_EQ(Decode(geam).shape.trans, 'T');
  EXPECT_EQ(Decode(geam).cuda.trans_b, 'N');
  EXPECT_EQ(Decode(geam).shape.side, 0);
  EXPECT_EQ(Decode(geam).shape.uplo, 0);
  EXPECT_EQ(Decode(geam).shape.diag, 0);
  CudaMatrixArgs dgmm;
  dgmm.kind = MatrixKind::kDgmm;
  dgmm.mode = 0;
  dgmm.real = Real();
  EXPECT_EQ(Decode(dgmm).shape.side, 'L');
  EXPECT_EQ(Decode(dgmm).shape.trans, 0);
  CudaMatrixArgs syrk;
  syrk.kind = MatrixKind::kSyrk;
  syrk.type = DataType::kC32;
  syrk.a_type = 6, syrk.c_type = 4;
  syrk.uplo = 7;
  syrk.real = Real();
  EXPECT_EQ(Decode(syrk).shape.type, DataType::kC16);
  EXPECT_EQ(Decode(syrk).cuda.c_type, DataType::kC32);
  EXPECT_EQ(Decode(syrk).shape.uplo, '?');
}

}  // namespace cuda_gemm_test
}  // namespace dlhook
