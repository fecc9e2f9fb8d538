// LIBXSMM: handles are read only where they agree with themselves; products with arguments left out; parts of a batch.
#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "preload/hook_arguments.h"
#include "tests/preload/test_record.h"

namespace dlhook {

namespace libxsmm_test {

using Numbers = std::vector<int32_t>;

// N C H W K R S u v, pads, threads, types, formats, algorithm, options, fused.
const Numbers kDescription = {4, 16, 12, 10, 32, 3, 3, 2, 1, 1, 1, 1, 1, 0, 0, 2, 1, 1, 1, 1, 0, 1, 0};

// As create_conv_layer of 1.17 fills it in: the algorithm that it chose, formats, fused, options, padded input, output.
Numbers Handle(const Numbers& description) {
  Numbers handle = {1, 1};
  handle.insert(handle.end(), description.begin(), description.end());
  handle.insert(handle.end(), {1, 1, 1, 0, 1, 14, 12, 6, 10, 6, 10});
  return handle;
}

LibxsmmShape Decode(const Numbers& handle, int32_t kind, int32_t tid, int32_t status = 0) {
  LibxsmmLayerArgs args;
  args.layer = LibxsmmLayer::kConvolution;
  args.handle = handle.data();
  args.kind = kind;
  args.start_thread = 3;
  args.tid = tid;
  TestRecord record(kWords<LibxsmmShape>, 0, status);
  DecodeLibxsmmLayer(args, record.record());
  EXPECT_TRUE(record.untouched_behind());
  return record.shape<LibxsmmShape>();
}

TEST(LibxsmmTest, AConvolutionIsItsDescription) {
  const LibxsmmShape shape = Decode(Handle(kDescription), 2, 3);
  EXPECT_EQ(shape.layer, LibxsmmLayer::kConvolution);
  EXPECT_EQ(shape.pass, LibxsmmPass::kUpdate);
  EXPECT_EQ(shape.share, 0);
  Numbers expected = kDescription;
  expected[20] = 1;  // direct, which the library chose
  EXPECT_EQ(Numbers(shape.numbers, shape.numbers + shape.count), expected);
}

TEST(LibxsmmTest, TheFirstThreadStandsForTheWhole) {
  EXPECT_EQ(Decode(Handle(kDescription), 0, 4).share, 1);
  EXPECT_EQ(Decode(Handle(kDescription), 0, 4).count, 23);
}

TEST(LibxsmmTest, AHandleThatContradictsItselfIsNotRead) {
  const Numbers good = Handle(kDescription);
  for (size_t i = 0; i < 34; ++i) {
    const bool is_free =
        i == 2 + 0 || i == 2 + 1 || i == 2 + 4 || i == 2 + 15 || i == 2 + 13 || i == 2 + 14 || i == 2 + 20;
    if (is_free || i == 25) continue;  // sizes that nothing follows from; the algorithms
    Numbers handle = good;
    handle[i] = handle[i] == 0 ? 3000 : -handle[i];
    EXPECT_EQ(Decode(handle, 0, 3).count, 0) << i;
  }
  EXPECT_EQ(Decode(good, 0, 3, 100010).count, 0) << "the call failed";
  EXPECT_EQ(Decode(good, 17, 3).pass, LibxsmmPass::kUnknown);
}

TEST(LibxsmmTest, ArgumentsLeftOut) {
  const int32_t m = 23, k = 7;
  LibxsmmGemmArgs args;
  args.input = args.output = DataType::kF32;
  args.m = &m;
  args.k = &k;
  args.trans_a = "t";
  TestRecord record(kWords<GemmShape>, 3);
  DecodeLibxsmmGemm(args, record.record());
  const auto shape = record.shape<GemmShape>();
  EXPECT_EQ(shape.m, 23);
  EXPECT_EQ(shape.n, 7);
  EXPECT_EQ(shape.k, 7);
  EXPECT_EQ(shape.trans_a, 'T');
  EXPECT_EQ(shape.trans_b, 'N');
  EXPECT_EQ(shape.lda, 7);
  EXPECT_EQ(shape.ldb, 7);
  EXPECT_EQ(shape.ldc, 23);
}

TEST(LibxsmmTest, EachThreadHasItsPartOfABatch) {
  LibxsmmBatchArgs args;
  args.input_precision = 2;  // bf16
  args.output_precision = 1;
  args.m = args.n = args.k = 8;
  args.batch = -10;  // without locks around C
  args.threads = 4;
  Numbers parts;
  for (args.thread = 0; args.thread < 4; ++args.thread) {
    TestRecord record(kWords<GemmShape>, 0);
    DecodeLibxsmmBatch(args, record.record());
    const auto shape = record.shape<GemmShape>();
    EXPECT_EQ(shape.a_type, DataType::kBf16);
    EXPECT_EQ(shape.c_type, DataType::kF32);
    parts.push_back(static_cast<int32_t>(shape.batch));
  }
  EXPECT_EQ(parts, (Numbers{3, 3, 3, 1}));
}

}  // namespace libxsmm_test
}  // namespace dlhook
