// Decoded layers of LIBXSMM, in the words of oneDNN's log. Definitions are as the shim writes them.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/ops/decode_text.h"

namespace dlhook::analyzer {
namespace {

Op Layer(const std::string& fields) {
  return DecodeText("function: \"libxsmm_dnn_execute_st\" libxsmm { " + fields + " }");
}

constexpr char kConvolution[] =
    "layer: CONVOLUTION number: [4, 16, 12, 10, 32, 3, 3, 2, 1, 1, 1, 1, 1, 0, 0, 2, 1, 1, 2, 8, 1, 1, 0] ";

TEST(LibxsmmOpTest, Convolution) {
  const Op op = Layer(absl::StrCat(kConvolution, "pass: BACKWARD"));
  EXPECT_EQ(op.kind, "convolution");
  EXPECT_EQ(op.direction, Direction::kBackwardData);
  EXPECT_EQ(op.problem, "mb4_ic16oc32_ih12oh6kh3sh2dh0ph1_iw10ow10kw3sw1dw0pw1");
  EXPECT_EQ(op.algorithm, "direct");
  EXPECT_EQ(op.flops, 2 * 4 * 32 * 16 * 6 * 10 * 3 * 3);
  ASSERT_EQ(op.tensors.size(), 3u);
  EXPECT_EQ(op.tensors[0].format, "acdb");  // NHWC
  EXPECT_EQ(op.tensors[1].format, "cdba");  // RSCK
  EXPECT_EQ(op.types, "f32");
  ASSERT_NE(op.onednn_problem(), nullptr);
  EXPECT_EQ(op.onednn(), nullptr);
}

TEST(LibxsmmOpTest, AShareHasNoOperations) {
  const Op op = Layer(absl::StrCat(kConvolution, "pass: FORWARD share: true"));
  EXPECT_EQ(op.kind, "share");
  EXPECT_EQ(op.subject, "convolution");
  EXPECT_FALSE(op.flops.has_value());
  EXPECT_FALSE(op.bytes.has_value());
}

TEST(LibxsmmOpTest, WithoutNumbersTheKindIsKnown) {
  const Op op = Layer("layer: FULLY_CONNECTED pass: UPDATE");
  EXPECT_EQ(op.kind, "inner_product");
  EXPECT_EQ(op.direction, Direction::kBackwardWeights);
  EXPECT_EQ(op.problem, "libxsmm_dnn_execute_st");
  EXPECT_FALSE(op.flops.has_value());
  // Nor with numbers that no call has.
  EXPECT_FALSE(Layer("layer: FULLY_CONNECTED number: [4, 16]").flops.has_value());
  EXPECT_EQ(Layer("layer: POOLING number: [9223372036854775807, 1, 1, 1, 1, 1, 1, 1, 9223372036854775807, 0, 0, 0, 0, "
                  "0, 1, 1, 1, 1, 1, 1]")
                .problem,
            "libxsmm_dnn_execute_st");
}

TEST(LibxsmmOpTest, CopyIntoBlocks) {
  // NCHW, f32, an input; 16 channels in a block, width, height, blocks, images.
  const Op op = Layer("layer: COPY_IN number: [4, 1, 0, 3, 16, 2, 10, 1, 12, 3, 2, 0, 4]");
  EXPECT_EQ(op.kind, "reorder");
  EXPECT_EQ(op.problem, "4x32x12x10");
  ASSERT_EQ(op.tensors.size(), 2u);
  EXPECT_EQ(op.tensors[0].format, "abcd");
  EXPECT_EQ(op.tensors[1].format, "aBcd16b");
}

TEST(LibxsmmOpTest, AKernelThatIsLookedUpComputesNothing) {
  const Op op = DecodeText(
      "function: \"libxsmm_smmdispatch\" gemm { a_type: F32 b_type: F32 c_type: F32 m: 8 n: 9 k: 10 kind: DISPATCH "
      "cache_hit: true }");
  EXPECT_EQ(op.kind, "gemm");
  EXPECT_TRUE(op.is_creation);
  EXPECT_TRUE(op.cache_hit);
  EXPECT_FALSE(op.flops.has_value());
}

}  // namespace
}  // namespace dlhook::analyzer
