// cuSPARSE's products: sizes from the descriptors.
#include <gtest/gtest.h>
#include <unistd.h>

#include "preload/decode/cuda_gemm.h"
#include "preload/track/cuda_state.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace cusparse_test {

constexpr FakeSparse kSparse = {100, 200, 999};
constexpr FakeDense kDense = {100, 64, 128, 2, 1};
constexpr FakeDense kDenseA = {100, 32, 112, 0, 1};

struct Result {
  MatrixShape shape;
  CudaMatrixShape cuda;
};

Result Decode(MatrixKind kind, int32_t trans_a, const void* a, const void* c, int32_t status = 0) {
  SparseArgs args;
  args.kind = kind;
  args.handle = Pointer(0x10);
  args.trans_a = trans_a;
  args.trans_b = 1;
  args.a_descriptor = a, args.c_descriptor = c;
  args.y_descriptor = kind == MatrixKind::kSpmv ? &kDense : nullptr;
  args.real = reinterpret_cast<const void*>(&FakeRuntimeFunction);
  TestRecord record(kWords<MatrixShape, CudaMatrixShape>, 3, status);
  DecodeSparse(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
  return {record.shape<MatrixShape>(), record.shape<CudaMatrixShape>(kWords<MatrixShape>)};
}

TEST(CusparseTest, Kinds) {
  *FakeRuntimeAnswers() = {};
  struct Case {
    MatrixKind kind;
    int32_t trans_a;
    const void *a, *c;
    int64_t m, n, k, lda, ldc, nonzeros;
    DataType type;
    char trans_b;
  };
  for (const Case& c :
       {Case{MatrixKind::kSpmm, 0, &kSparse, &kDense, 100, 64, 200, 0, 128, 999, DataType::kF16, 'T'},
        Case{MatrixKind::kSpmm, 1, &kSparse, &kDense, 200, 64, 100, 0, 128, 999, DataType::kF16, 'T'},
        Case{MatrixKind::kSddmm, 0, &kDenseA, &kSparse, 100, 200, 32, 112, 0, 999, DataType::kF32, 'T'},
        Case{MatrixKind::kSpgemm, 0, &kSparse, &kSparse, 100, 200, 200, 0, 0, 999, DataType::kUnknown, 'T'}}) {
    const Result result = Decode(c.kind, c.trans_a, c.a, c.c);
    EXPECT_EQ(result.shape.kind, c.kind);
    EXPECT_EQ(result.shape.m, c.m);
    EXPECT_EQ(result.shape.n, c.n);
    EXPECT_EQ(result.shape.k, c.k);
    EXPECT_EQ(result.shape.lda, c.lda);
    EXPECT_EQ(result.shape.ldc, c.ldc);
    EXPECT_EQ(result.cuda.nonzeros, c.nonzeros);
    EXPECT_EQ(result.shape.type, c.type);
    EXPECT_EQ(result.shape.trans, c.trans_a == 0 ? 'N' : 'T');
    EXPECT_EQ(result.cuda.trans_b, c.trans_b);
    EXPECT_EQ(result.shape.batch, 1);
  }
  const Result vector = Decode(MatrixKind::kSpmv, 0, &kSparse, nullptr);
  EXPECT_EQ(vector.shape.m, 100);
  EXPECT_EQ(vector.shape.n, 1);
  EXPECT_EQ(vector.shape.k, 200);
  EXPECT_EQ(vector.cuda.trans_b, 0);
  EXPECT_EQ(vector.shape.type, DataType::kF16);
}

TEST(CusparseTest, CapturedThroughTheHandlesStream) {
  *FakeRuntimeAnswers() = {};
  const auto captured = [] { return Decode(MatrixKind::kSpmm, 0, &kSparse, &kDense).cuda.captured; };
  FakeRuntimeAnswers()->handle_stream = Pointer(0x77);
  FakeRuntimeAnswers()->capture_status = 1;
  EXPECT_EQ(captured(), 0);
  TrackBeginCapture({Pointer(0x77), 0, reinterpret_cast<const void*>(&FakeRuntimeFunction)});
  EXPECT_EQ(captured(), 1);
  TrackEndCapture({});
}

TEST(CusparseTest, FailedCallsAndFailingGetters) {
  *FakeRuntimeAnswers() = {};
  EXPECT_EQ(Decode(MatrixKind::kSpmm, 0, &kSparse, &kDense, 3).shape.m, 0);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);  // the descriptors may be invalid
  FakeRuntimeAnswers()->status = 3;
  const Result result = Decode(MatrixKind::kSpmm, 0, &kSparse, &kDense);
  EXPECT_EQ(result.shape.m, 0);
  EXPECT_EQ(result.shape.type, DataType::kUnknown);
  FakeRuntimeAnswers()->status = 0;
  EXPECT_EQ(Decode(MatrixKind::kSpmm, 0, nullptr, nullptr).shape.k, 0);
}

}  // namespace cusparse_test
}  // namespace dlhook
