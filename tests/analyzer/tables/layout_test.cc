// The table `layout` on real logs of torch 2.13 (testdata/README.md) and on hand-written sequences of reorders.
#include <gtest/gtest.h>

#include "analyzer/tables/calls/round_trips.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

std::string Reorder(const std::string& from, const std::string& to, const std::string& dims = "8x16x32x32") {
  return "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:blk,undef,src:f32::blocked:" + from +
         "::f0 dst:f32::blocked:" + to + "::f0,attr-scratchpad:user,," + dims + ",0.01\n";
}

// A convolution from 16 to 16 channels in the blocked format; `channels` distinguishes layers.
std::string Convolution(const std::string& direction, int channels = 16) {
  const std::string c = std::to_string(channels);
  return "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core," + direction +
         ",src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:ABcd16b16a::f0 bia:undef::undef::: "
         "dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,mb8_ic" +
         c +
         "oc16_"
         "ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.1\n";
}

const std::string kAway = Reorder("aBcd16b", "abcd");
const std::string kBack = Reorder("abcd", "aBcd16b");

size_t RoundTrips(const std::string& log) {
  ModelBuilder builder;
  builder.Log(log, 1000);
  return FindRoundTrips(builder.Build()).size();
}

TEST(RoundTripTest, BetweenTwoLayers) {
  EXPECT_EQ(RoundTrips(Convolution("forward_training") + kAway + kBack + Convolution("forward_training", 32)), 1u);
}

TEST(RoundTripTest, MovingWeightsInBetweenDoesNotHideIt) {
  EXPECT_EQ(RoundTrips(Convolution("forward_training") + kAway + kBack + Reorder("abcd", "ABcd16b16a", "16x16x3x3") +
                       Convolution("forward_training")),
            1u);
}

TEST(RoundTripTest, NeedsAnOpOnBothSides) {
  EXPECT_EQ(RoundTrips(kAway + kBack + Convolution("forward_training")), 0u);
  EXPECT_EQ(RoundTrips(Convolution("forward_training") + kAway + kBack), 0u);
}

TEST(RoundTripTest, OtherDimsOrFormatsDoNotUndo) {
  EXPECT_EQ(RoundTrips(Convolution("forward_training") + kAway + Reorder("abcd", "aBcd16b", "8x16x16x16") +
                       Convolution("forward_training")),
            0u);
  EXPECT_EQ(
      RoundTrips(Convolution("forward_training") + kAway + Reorder("abcd", "acdb") + Convolution("forward_training")),
      0u);
}

TEST(RoundTripTest, ForwardToBackwardIsAnotherTensor) {
  EXPECT_EQ(RoundTrips(Convolution("forward_training") + kAway + kBack + Convolution("backward_data")), 0u);
}

TEST(RoundTripTest, ALayersOwnWeightsGradientReadsOtherTensors) {
  EXPECT_EQ(RoundTrips(Convolution("backward_data") + kAway + kBack + kBack + Convolution("backward_weights")), 0u);
  // The previous layer, of the same shape, reads the gradient.
  EXPECT_EQ(RoundTrips(Convolution("backward_data") + kAway + kBack + kBack + Convolution("backward_weights") + kBack +
                       Convolution("backward_data")),
            1u);
  EXPECT_EQ(RoundTrips(Convolution("backward_data") + kAway + kBack + kBack + Convolution("backward_weights") + kBack +
                       kBack + Convolution("backward_weights")),
            1u);
}

TEST(RoundTripTest, NotFromOneStepToTheNext) {
  std::string log;
  for (int i = 0; i < 5; ++i) log += kBack + Convolution("forward_inference") + kAway;
  EXPECT_EQ(RoundTrips(log), 0u);
}

TEST(RoundTripTest, NotFromOneThreadToAnother) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread();
  const OpIndex convolution = builder.AddOp(OneDnnDefinition(Convolution("forward_inference")));
  const OpIndex next = builder.AddOp(OneDnnDefinition(Convolution("forward_inference", 32)));
  builder.Call(convolution, 0, 10);
  builder.Call(builder.AddOp(OneDnnDefinition(kAway)), 20, 10);
  builder.Call(builder.AddOp(OneDnnDefinition(kBack)), 40, 10, other);
  builder.Call(next, 60, 10, other);
  EXPECT_TRUE(FindRoundTrips(builder.Build()).empty());
}

// Six steps of Conv2d(3,16) ReLU Conv2d(16,16) ReLU … in training. Between the convolutions the activation leaves conv1
// as aBcd16b, ReLU wants abcd, conv2 wants aBcd16b again; its gradient takes the same way back.
TEST(LayoutTableTest, PlainCnnGoesThroughAbcdAndBack) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const Table table = RunPass("layout", builder.Build());

  const size_t away = RowWhere(table, {{"dims", "8x16x32x32"}, {"from", "aBcd16b"}, {"to", "abcd"}});
  EXPECT_EQ(Text(table, away, "tensor"), "activations");
  EXPECT_EQ(Text(table, away, "change"), "format");
  EXPECT_EQ(Integer(table, away, "calls"),
            6 * 3);  // out of conv1, conv2 and the gradient out of conv2
  EXPECT_EQ(Integer(table, away, "round_trip_calls"), 6 * 2);
  EXPECT_EQ(Integer(table, away, "bytes"), 2 * 4 * 8 * 16 * 32 * 32);
  const size_t back = RowWhere(table, {{"dims", "8x16x32x32"}, {"from", "abcd"}, {"to", "aBcd16b"}});
  // Into conv2 forward; conv2's data gradient; twice into conv2's and once into conv1's weight gradient.
  EXPECT_EQ(Integer(table, back, "calls"), 6 * 5);
  EXPECT_EQ(Integer(table, back, "round_trip_calls"), 6 * 2);
  EXPECT_LT(Integer(table, back, "round_trip_time"), Integer(table, back, "total_time"));
}

TEST(LayoutTableTest, WeightsAndBiasesAreToldFromActivations) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const Table table = RunPass("layout", builder.Build());
  EXPECT_EQ(RowsWhere(table, {{"dims", "16x16x3x3"}, {"tensor", "weights"}}).size(), 3u);
  EXPECT_EQ(RowsWhere(table, {{"dims", "16x3x3x3"}, {"tensor", "weights"}}).size(), 2u);
  const size_t bias = RowWhere(table, {{"dims", "16"}});
  EXPECT_EQ(Text(table, bias, "tensor"), "bias");
  EXPECT_EQ(Text(table, bias, "change"), "copy");
  EXPECT_EQ(Integer(table, bias, "calls"), 6 * 2);
  EXPECT_EQ(Sum(table, "calls"), 6 * 15);
}

TEST(LayoutTableTest, ChannelsLastTwinMovesOnlyWeights) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_channels_last.log"), 5000);
  const Table table = RunPass("layout", builder.Build());
  EXPECT_TRUE(RowsWhere(table, {{"tensor", "activations"}}).empty());
  EXPECT_EQ(Sum(table, "round_trip_calls"), 0);
  EXPECT_EQ(Sum(table, "calls"), 6 * 7);
}

TEST(LayoutTableTest, SaysWhatChanges) {
  ModelBuilder builder;
  builder.Log(
      "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 "
      "dst:bf16::blocked:ab::f0,,,8x4,0.002\n"
      "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 "
      "dst:bf16::blocked:ba::f0,,,8x4,0.002\n"
      "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:ab:8x1:f0 "
      "dst:f32::blocked:ab::f0,,,8x4,0.002\n"
      "onednn_verbose,v1,primitive,exec,cpu,reorder,what,undef,what:is:this,,,8x4,0.002\n",
      10);
  const Table table = RunPass("layout", builder.Build());
  ASSERT_EQ(table.rows.size(), 4u);
  const size_t type = RowWhere(table, {{"change", "type"}});
  EXPECT_EQ(Integer(table, type, "bytes"), 8 * 4 * (4 + 2));
  EXPECT_DOUBLE_EQ(Real(table, type, "throughput"), 192.0 / 2000.0);
  RowWhere(table, {{"change", "format and type"}, {"from_type", "f32"}, {"to_type", "bf16"}});
  RowWhere(table, {{"change", "format"}, {"from", "ab(8x1)"}, {"to", "ab"}});
  RowWhere(table, {{"change", "unknown"}, {"from", "what:is:this"}});
}

}  // namespace
}  // namespace dlhook::analyzer
