// Names of memory orders, from hand-written strides.
#include <gtest/gtest.h>

#include "analyzer/ops/cudnn_problem.h"

namespace dlhook::analyzer {
namespace {

TEST(TensorFormatTest, NamesTheOrderInMemory) {
  // 2 x 3 x 4 x 5: w innermost, then h, c, n; c innermost; n innermost; n and c swapped.
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {60, 20, 5, 1}), "nchw");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {60, 1, 15, 3}), "nhwc");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {1, 40, 10, 2}), "chwn");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {20, 40, 5, 1}), "cnhw");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {60, 20, 1, 4}), "ncwh");
}

TEST(TensorFormatTest, OtherRanks) {
  EXPECT_EQ(TensorFormat({7}, {1}), "n");
  EXPECT_EQ(TensorFormat({7, 3}, {3, 1}), "nc");
  EXPECT_EQ(TensorFormat({7, 3}, {1, 7}), "cn");
  EXPECT_EQ(TensorFormat({2, 3, 5}, {15, 5, 1}), "ncw");
  EXPECT_EQ(TensorFormat({2, 3, 5}, {15, 1, 3}), "nwc");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}), "ncdhw");
  EXPECT_EQ(TensorFormat({2, 3, 4, 5, 6}, {360, 1, 90, 18, 3}), "ndhwc");
  EXPECT_EQ(TensorFormat({2, 2, 2, 2, 2, 2}, {32, 16, 8, 4, 2, 1}), "abcdef");
}

TEST(TensorFormatTest, StridesDecideWhereDimensionsOfOneLeaveItOpen) {
  // One channel: both orders are the same in memory, and the program's strides decide.
  EXPECT_EQ(TensorFormat({2, 1, 4, 5}, {20, 20, 5, 1}), "nchw");
  EXPECT_EQ(TensorFormat({2, 1, 4, 5}, {20, 1, 5, 1}), "nhwc");
  // Neither order gives a stride of 99: the first that matches the rest.
  EXPECT_EQ(TensorFormat({2, 1, 4, 5}, {20, 99, 5, 1}), "nchw");
  EXPECT_EQ(TensorFormat({1, 3, 4, 5}, {99, 1, 15, 3}), "nhwc");
  // A bias as in cuDNN's own plans, next to NHWC tensors.
  EXPECT_EQ(TensorFormat({1, 128, 1, 1}, {128, 1, 128, 128}), "nhwc");
}

TEST(TensorFormatTest, GapsAndBroadcastsHaveNoOrder) {
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {120, 20, 5, 1}), "strided");  // every second image
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {60, 1, 20, 4}), "strided");   // three of four channels
  EXPECT_EQ(TensorFormat({2, 3, 4, 5}, {0, 20, 5, 1}), "strided");    // one image for all
}

TEST(TensorFormatTest, TakesAnyNumbers) {
  EXPECT_EQ(TensorFormat({}, {}), "");
  EXPECT_EQ(TensorFormat({2, 3}, {1}), "");
  EXPECT_EQ(TensorFormat(std::vector<int64_t>(13, 2), std::vector<int64_t>(13, 1)), "");
  EXPECT_EQ(TensorFormat({INT64_MAX, INT64_MAX, 2, 2}, {4, 1, 2, 1}), "strided");
  EXPECT_EQ(TensorFormat({INT64_MIN, -1, 2, 2}, {-4, 4, 2, 1}), "strided");
}

}  // namespace
}  // namespace dlhook::analyzer
