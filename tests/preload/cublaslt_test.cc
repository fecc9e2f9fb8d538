// cuBLASLt: products and transforms from the library's own attributes, and which of the heuristic's results was used.
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include "preload/decode/cuda_gemm.h"
#include "preload/link/resolver.h"
#include "tests/preload/fake_getters.h"
#include "tests/preload/test_process.h"
#include "tests/preload/test_record.h"

namespace dlhook {
namespace cublaslt_test {

const void* Real() { return reinterpret_cast<const void*>(&FakeRuntimeFunction); }

// Sizes as in cublasLt.h: the library refuses others.
FakeAttributes Layout(int64_t type, int64_t order, int64_t rows, int64_t columns, int64_t ld, int64_t batch = 1,
                      int64_t stride = 0) {
  return {{{0, 4, type}, {1, 4, order}, {2, 8, rows}, {3, 8, columns}, {4, 8, ld}, {5, 4, batch}, {6, 8, stride}}};
}

// cublasLtMatmulAlgo_t: for the fakes the address of its attributes, then garbage.
struct Algorithm {
  const FakeAttributes* attributes;
  uint64_t rest[7] = {};
};
static_assert(sizeof(Algorithm) == 64);

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes = 0;
  int state = 0;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(HeuristicResult) == 96);

class CublasLtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    *FakeRuntimeAnswers() = {};
    args_.description = &description_;
    args_.a = Pointer(0x1000), args_.b = Pointer(0x2000), args_.c = Pointer(0x4000), args_.d = Pointer(0x3000);
    args_.a_layout = &a_, args_.b_layout = &b_, args_.c_layout = &c_, args_.d_layout = &d_;
    args_.workspace_bytes = 33554432;
    args_.stream = Pointer(0x30);
    args_.real = Real();
  }

  CudaGemmShape Decode(std::vector<uint64_t>* addresses = nullptr) {
    TestRecord record(kWords<CudaGemmShape, GemmGroups>, 3);
    DecodeLtMatmul(args_, record.record());
    EXPECT_TRUE(record.untouched_behind());
    if (addresses != nullptr) *addresses = record.addresses();
    return record.shape<CudaGemmShape>();
  }

  // A (k x m, transposed) f16, B (k x n) bf16, D (m x n) f32.
  FakeAttributes a_ = Layout(2, 0, 256, 120, 256);
  FakeAttributes b_ = Layout(14, 1, 256, 64, 512);
  FakeAttributes c_ = Layout(0, 0, 1, 1, 1);
  FakeAttributes d_ = Layout(0, 2, 120, 64, 128);
  FakeAttributes description_ = {{{0, 4, 68}, {1, 4, 0}, {3, 4, 1}, {4, 4, 0}, {7, 4, 132}, {25, 1, 1}}};
  FakeAttributes configuration_ = {
      {{0, 4, 21}, {1, 4, 20}, {2, 4, 3}, {3, 4, 2}, {4, 4, 1}, {5, 4, 7}, {6, 4, 11}, {7, 2, 5}, {8, 2, 4}}};
  LtMatmulArgs args_;
};

TEST_F(CublasLtTest, AProductAsItsDescriptorsState) {
  const Algorithm algorithm = {&configuration_};
  args_.algorithm = &algorithm;
  std::vector<uint64_t> addresses;
  const CudaGemmShape shape = Decode(&addresses);
  EXPECT_EQ(shape.gemm.a_type, DataType::kF16);
  EXPECT_EQ(shape.gemm.b_type, DataType::kBf16);
  EXPECT_EQ(shape.gemm.c_type, DataType::kF32);
  EXPECT_EQ(shape.gemm.trans_a, 'T');
  EXPECT_EQ(shape.gemm.trans_b, 'N');
  EXPECT_EQ(shape.gemm.m, 120);
  EXPECT_EQ(shape.gemm.n, 64);
  EXPECT_EQ(shape.gemm.k, 256);
  EXPECT_EQ(shape.gemm.lda, 256);
  EXPECT_EQ(shape.gemm.ldb, 512);
  EXPECT_EQ(shape.gemm.ldc, 128);
  EXPECT_EQ(shape.gemm.batch, 1);
  EXPECT_EQ(shape.gemm.kind, GemmKind::kGemm);
  EXPECT_EQ(shape.lt, 1);
  EXPECT_EQ(shape.order_a, 1);
  EXPECT_EQ(shape.order_b, 2);
  EXPECT_EQ(shape.order_d, 3);
  EXPECT_EQ(shape.compute_type, 68);
  EXPECT_EQ(shape.scale_type, 0);
  EXPECT_EQ(shape.math_mode, -1);
  EXPECT_EQ(shape.epilogue, 132u);
  EXPECT_EQ(shape.fast_accumulation, 1);
  EXPECT_EQ(shape.algorithm, 21);
  EXPECT_EQ(shape.tile, 20);
  EXPECT_EQ(shape.split_k, 3);
  EXPECT_EQ(shape.reduction, 2);
  EXPECT_EQ(shape.swizzle, 1);
  EXPECT_EQ(shape.custom_option, 7);
  EXPECT_EQ(shape.stages, 11);
  EXPECT_EQ(shape.inner_shape, 5);
  EXPECT_EQ(shape.cluster_shape, 4);
  EXPECT_EQ(shape.workspace_bytes, 33554432u);
  EXPECT_EQ(shape.alignment_log2, 8);
  EXPECT_EQ(shape.captured, 0);
  EXPECT_EQ(shape.reserved, 0u);
  EXPECT_EQ(addresses, (std::vector<uint64_t>{0x1000, 0x2000, 0x3000}));
}

// Only types of 8 bits and less are scaled.
TEST_F(CublasLtTest, ScaleModes) {
  description_ = {{{0, 4, 68}, {31, 4, 2}, {32, 4, 3}, {34, 4, 5}}};
  EXPECT_EQ(Decode().scale_mode_a, 0);
  a_ = Layout(28, 0, 256, 120, 256), b_ = Layout(33, 0, 256, 64, 256), d_ = Layout(29, 0, 120, 64, 128);
  CudaGemmShape shape = Decode();
  EXPECT_EQ(shape.scale_mode_a, 2);
  EXPECT_EQ(shape.scale_mode_b, 3);
  EXPECT_EQ(shape.scale_mode_d, 5);
  description_.list[4] = {37, 4, 1};
  EXPECT_EQ(Decode().scale_mode_d, 1);
}

TEST_F(CublasLtTest, NotTransposed) {
  description_.list[2].value = 0;
  description_.list[3].value = 1;
  const CudaGemmShape shape = Decode();
  EXPECT_EQ(shape.gemm.trans_a, 'N');
  EXPECT_EQ(shape.gemm.trans_b, 'T');
  EXPECT_EQ(shape.gemm.k, 120);
}

TEST_F(CublasLtTest, BatchesAndAlignment) {
  a_ = Layout(2, 0, 256, 120, 256, 12, 8), b_ = Layout(2, 0, 256, 64, 256, 12, 256 * 64),
  d_ = Layout(0, 0, 120, 64, 128, 12, 120 * 64);
  EXPECT_EQ(Decode().gemm.batch, 12);
  EXPECT_EQ(Decode().alignment_log2, 4);  // stride of A: 16 bytes
  a_.list[6].value = 256;
  args_.c = Pointer(0x4004);  // C counts, too
  EXPECT_EQ(Decode().alignment_log2, 2);
  // A stride without a batch is ignored.
  a_ = Layout(2, 0, 256, 120, 256, 1, 1), b_.list[5].value = d_.list[5].value = 1;
  args_.c = args_.d;
  EXPECT_EQ(Decode().alignment_log2, 8);
}

// Sizes of grouped layouts are in the device's memory; operands behind arrays of pointers are not recorded.
TEST_F(CublasLtTest, GroupsAndArraysOfPointers) {
  for (uint32_t mode : {1u, 2u}) {
    for (FakeAttributes* layout : {&a_, &b_, &d_}) {
      *layout = mode == 2 ? Layout(2, 0, 0, 0, 0, 5) : Layout(2, 0, 64, 64, 64, 5);
      layout->list[7] = {8, 4, static_cast<int64_t>(mode)};
    }
    TestRecord record(kWords<CudaGemmShape, GemmGroups>, 3);
    DecodeLtMatmul(args_, record.record());
    const CudaGemmShape shape = record.shape<CudaGemmShape>();
    GemmGroups groups;
    memcpy(&groups, record.record()->shape() + kWords<CudaGemmShape>, sizeof groups);
    EXPECT_EQ(groups.groups, mode == 2 ? 5 : 0);
    EXPECT_EQ(groups.flops, 0u);
    EXPECT_EQ(shape.gemm.batch, 5);
    EXPECT_EQ(shape.gemm.m, mode == 2 ? 0 : 64);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
  }
}

// Attributes unknown to a version have the meaning of unset ones.
TEST_F(CublasLtTest, UnknownAttributes) {
  description_ = {};
  FakeAttributes none = {};
  const Algorithm algorithm = {&none};
  args_.algorithm = &algorithm;
  const CudaGemmShape shape = Decode();
  EXPECT_EQ(shape.gemm.trans_a, 'N');
  EXPECT_EQ(shape.compute_type, -1);
  EXPECT_EQ(shape.scale_type, -1);
  EXPECT_EQ(shape.epilogue, 1u);
  EXPECT_EQ(shape.fast_accumulation, 0);
  EXPECT_EQ(shape.algorithm, -1);
  EXPECT_EQ(shape.tile, 0);
  EXPECT_EQ(shape.cluster_shape, 0);
  FakeRuntimeAnswers()->status = 1;
  const CudaGemmShape failed = Decode();
  EXPECT_EQ(failed.gemm.m, 0);
  EXPECT_EQ(failed.gemm.a_type, DataType::kUnknown);
  EXPECT_EQ(failed.gemm.batch, 1);
}

TEST_F(CublasLtTest, AbsentGettersAndNullDescriptors) {
  args_.real = reinterpret_cast<const void*>(&getpid);
  CudaGemmShape shape = Decode();
  EXPECT_EQ(shape.gemm.m, 0);
  EXPECT_EQ(shape.compute_type, -1);
  EXPECT_EQ(shape.algorithm, -1);
  EXPECT_EQ(shape.heuristic_rank, -1);
  args_ = {};
  args_.real = Real();
  shape = Decode();
  EXPECT_EQ(shape.gemm.n, 0);
  EXPECT_EQ(shape.compute_type, -1);
  EXPECT_EQ(FakeRuntimeAnswers()->calls, 0);
}

HeuristicResult Result(const FakeAttributes* attributes, uint64_t seed) {
  HeuristicResult result = {{attributes}};
  for (uint64_t& word : result.algorithm.rest) word = seed = seed * 6364136223846793005u + 1442695040888963407u;
  return result;
}

TEST_F(CublasLtTest, WhichAnswerOfTheHeuristicsWasTaken) {
  std::vector<HeuristicResult> results;
  for (uint64_t i = 0; i < 8; ++i) results.push_back(Result(&configuration_, i + 1));
  const int32_t returned = 5;
  LtHeuristicArgs heuristic;
  heuristic.requested = 8;
  heuristic.results = results.data();
  heuristic.returned = &returned;
  heuristic.real = Real();
  heuristic.status = 15;  // failed: the results are invalid
  TrackLtHeuristic(heuristic);
  args_.algorithm = &results[2].algorithm;
  EXPECT_EQ(Decode().chooser, Chooser::kFixed);
  EXPECT_EQ(Decode().heuristic_rank, -1);
  heuristic.status = 0;
  TrackLtHeuristic(heuristic);
  for (int16_t rank = 0; rank < 5; ++rank) {
    const Algorithm copy = results[static_cast<size_t>(rank)].algorithm;  // frameworks keep copies
    args_.algorithm = &copy;
    const CudaGemmShape shape = Decode();
    EXPECT_EQ(shape.chooser, Chooser::kHeuristic);
    EXPECT_EQ(shape.heuristic_rank, rank);
    EXPECT_EQ(shape.heuristic_requested, 8);
    EXPECT_EQ(shape.heuristic_results, 5);
    EXPECT_EQ(shape.algorithm, 21);
  }
  args_.algorithm = &results[6].algorithm;  // beyond what was returned
  EXPECT_EQ(Decode().chooser, Chooser::kFixed);
  Algorithm changed = results[0].algorithm;  // e.g. another split-k set by the caller
  changed.rest[6] ^= 1;
  args_.algorithm = &changed;
  EXPECT_EQ(Decode().chooser, Chooser::kFixed);
  args_.algorithm = nullptr;
  EXPECT_EQ(Decode().chooser, Chooser::kLibrary);
  EXPECT_EQ(Decode().algorithm, -1);
  // The last result counts.
  const int32_t one = 1;
  heuristic.requested = 1;
  heuristic.results = &results[3];
  heuristic.returned = &one;
  TrackLtHeuristic(heuristic);
  args_.algorithm = &results[3].algorithm;
  EXPECT_EQ(Decode().heuristic_rank, 0);
  EXPECT_EQ(Decode().heuristic_requested, 1);
}

// More results than the table has places: each is either right or not known, never another's.
TEST_F(CublasLtTest, ManyAnswers) {
  std::vector<HeuristicResult> results;
  for (uint64_t i = 0; i < 3000; ++i) results.push_back(Result(&configuration_, 1000 + i));
  LtHeuristicArgs heuristic;
  for (int32_t i = 0; i < 300; ++i) {
    const int32_t returned = 10;
    heuristic.requested = i + 10;
    heuristic.results = &results[static_cast<size_t>(i) * 10];
    heuristic.returned = &returned;
    TrackLtHeuristic(heuristic);
  }
  int known = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    args_.algorithm = &results[i].algorithm;
    const CudaGemmShape shape = Decode();
    if (shape.chooser == Chooser::kFixed) continue;
    ++known;
    ASSERT_EQ(shape.heuristic_rank, static_cast<int16_t>(i % 10));
    ASSERT_EQ(shape.heuristic_requested, i / 10 + 10);
  }
  EXPECT_GT(known, 800);
  for (uint64_t i = 0; i < 300000; ++i) {  // algorithms without a result, often enough to collide with any short key
    const HeuristicResult unknown = Result(nullptr, 1000000 + i);
    LtMatmulArgs args;
    args.algorithm = &unknown.algorithm;
    args.real = Real();
    FakeRuntimeAnswers()->status = 1;
    TestRecord record(kWords<CudaGemmShape, GemmGroups>, 3);
    DecodeLtMatmul(args, record.record());
    ASSERT_EQ(record.shape<CudaGemmShape>().chooser, Chooser::kFixed);
  }
}

// Getters are cached for a limited number of functions (of all libraries together): calls of further ones are not
// described, which is reported.
TEST_F(CublasLtTest, MoreFunctionsThanThereIsRoomFor) {
  int unknown = 0;
  for (int i = 0; i < 1000; ++i) {
    args_.real = static_cast<const char*>(Real()) + i;  // of the same library
    const CudaGemmShape shape = Decode();
    const bool known = shape.gemm.m == 120;
    EXPECT_EQ(shape.compute_type, known ? 68 : -1);
    EXPECT_EQ(shape.algorithm, -1);
    EXPECT_EQ(shape.math_mode, -1);
    EXPECT_EQ(shape.heuristic_rank, -1);
    EXPECT_EQ(shape.lt, 1);
    unknown += !known;
  }
  EXPECT_GT(unknown, 0);
  EXPECT_LT(unknown, 1000);
  ++g_binding_generation;  // a library was unloaded: its places are free again
  EXPECT_EQ(Decode().gemm.m, 120);
}

TEST_F(CublasLtTest, TheQuestionItself) {
  const int32_t returned = 3;
  LtHeuristicArgs args;
  args.description = &description_;
  args.a_layout = &a_, args.b_layout = &b_, args.c_layout = &c_, args.d_layout = &d_;
  args.requested = 8;
  args.returned = &returned;
  args.real = Real();
  TestRecord record(kWords<CudaGemmShape, GemmGroups>, 3);
  DecodeLtHeuristic(args, record.record());
  const auto shape = record.shape<CudaGemmShape>();
  EXPECT_EQ(shape.gemm.kind, GemmKind::kHeuristic);
  EXPECT_EQ(shape.gemm.m, 120);
  EXPECT_EQ(shape.gemm.k, 256);
  EXPECT_EQ(shape.heuristic_requested, 8);
  EXPECT_EQ(shape.heuristic_results, 3);
  EXPECT_EQ(shape.chooser, Chooser::kUnknown);
  EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0, 0, 0}));
  TestRecord failed(kWords<CudaGemmShape>, 3, 15);
  DecodeLtHeuristic(args, failed.record());
  EXPECT_EQ(failed.shape<CudaGemmShape>().heuristic_results, 0);
}

TEST_F(CublasLtTest, Transform) {
  a_ = Layout(3, 0, 64, 120, 64), b_ = Layout(3, 0, 1, 1, 9), c_ = Layout(0, 2, 120, 64, 3840, 2);
  const FakeAttributes description = {{{2, 4, 1}, {3, 4, 2}}};
  LtTransformArgs args;
  args.description = &description;
  args.a = Pointer(0x1000), args.c = Pointer(0x3000);
  args.a_layout = &a_, args.b_layout = &b_, args.c_layout = &c_;
  args.real = Real();
  for (const void* b : {static_cast<const void*>(nullptr), Pointer(0x2000)}) {
    args.b = b;
    TestRecord record(kWords<MatrixShape, CudaMatrixShape>, 3);
    DecodeLtTransform(args, record.record());
    const auto shape = record.shape<MatrixShape>();
    const auto cuda = record.shape<CudaMatrixShape>(kWords<MatrixShape>);
    EXPECT_EQ(shape.kind, MatrixKind::kTransform);
    EXPECT_EQ(shape.type, DataType::kS8);
    EXPECT_EQ(cuda.c_type, DataType::kF32);
    EXPECT_EQ(shape.trans, 'T');
    EXPECT_EQ(cuda.trans_b, b == nullptr ? '\0' : 'C');
    EXPECT_EQ(shape.m, 120);
    EXPECT_EQ(shape.n, 64);
    EXPECT_EQ(shape.batch, 2);
    EXPECT_EQ(shape.lda, 64);
    EXPECT_EQ(shape.ldb, 9);
    EXPECT_EQ(shape.ldc, 3840);
    EXPECT_EQ(cuda.order_a, 1);
    EXPECT_EQ(cuda.order_c, 3);
    EXPECT_EQ(record.addresses(), (std::vector<uint64_t>{0x1000, b == nullptr ? 0u : 0x2000u, 0x3000}));
    EXPECT_TRUE(record.untouched_behind());
  }
}

}  // namespace cublaslt_test
}  // namespace dlhook
