// The table `layout` on real logs of torch 2.13 (testdata/README.md) and on hand-written sequences of reorders.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/tables/calls/move_ends.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace layout_test {

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
  const TraceModel model = builder.Build();
  return FindRoundTrips(model, LayerAnalysis(model).steps()).size();
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
  const TraceModel model = builder.Build();
  EXPECT_TRUE(FindRoundTrips(model, LayerAnalysis(model).steps()).empty());
}

// Six steps of Conv2d(3,16) ReLU Conv2d(16,16) ReLU … in training. Between the convolutions the activation leaves conv1
// as aBcd16b, ReLU wants abcd, conv2 wants aBcd16b again; its gradient takes the same way back.
TEST(LayoutTableTest, PlainCnnGoesThroughAbcdAndBack) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const Table table = RunPass("layout", builder.Build());

  struct Expected {
    const char* from;
    const char* written_by;  // "-": not known
    const char* read_by;
    int calls_per_step;
    bool is_round_trip;
  };
  // The pooled activation that conv2 leaves is read by no library call, and its gradient written by none. conv2's input was
  // written long before its weight gradient reads it.
  for (const Expected& expected : {Expected{"aBcd16b", "conv1 forward", "conv2 forward", 1, true},
                                   {"abcd", "conv1 forward", "conv2 forward", 1, true},
                                   {"aBcd16b", "conv2 forward", "-", 1, false},
                                   {"abcd", "-", "conv2 backward-data", 1, false},
                                   {"aBcd16b", "conv2 backward-data", "conv1 backward-weights", 1, true},
                                   {"abcd", "conv2 backward-data", "conv1 backward-weights", 1, true},
                                   {"abcd", "-", "conv2 backward-weights", 2, false}}) {
    SCOPED_TRACE(absl::StrCat(expected.from, " ", expected.written_by, " ", expected.read_by));
    const size_t row = RowWhere(table, {{"dims", "8x16x32x32"},
                                        {"from", expected.from},
                                        {"written_by", expected.written_by},
                                        {"read_by", expected.read_by}});
    EXPECT_EQ(Text(table, row, "tensor"), "activations");
    EXPECT_EQ(Text(table, row, "change"), "format");
    EXPECT_EQ(Integer(table, row, "bytes"), 2 * 4 * 8 * 16 * 32 * 32);
    EXPECT_EQ(Integer(table, row, "calls"), 6 * expected.calls_per_step);
    EXPECT_EQ(Integer(table, row, "round_trip_calls"), expected.is_round_trip ? 6 : 0);
    EXPECT_EQ(Integer(table, row, "round_trip_time"), expected.is_round_trip ? Integer(table, row, "total_time") : 0);
  }
}

// The share of an op is divided among its rows and stays whole.
TEST(LayoutTableTest, WallSharesAddUp) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const TraceModel model = builder.Build();
  const RunTotals totals = ComputeTotals(model);
  int64_t share_ns = 0;
  for (OpIndex op = 0; op < model.ops.size(); ++op) {
    if (model.ops[op].kind == "reorder" && !model.ops[op].is_creation) share_ns += totals.ops[op].wall_share_ns;
  }
  EXPECT_GT(share_ns, 0);
  EXPECT_EQ(Sum(RunPass("layout", model), "wall_share"), share_ns);
}

TEST(LayoutTableTest, NoOpOfAnotherStepOrThread) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread();
  const OpIndex convolution = builder.AddOp(OneDnnDefinition(Convolution("forward_inference")));
  const OpIndex back = builder.AddOp(OneDnnDefinition(kBack));
  builder.Call(convolution, 0, 10);
  builder.Call(builder.AddOp(OneDnnDefinition(kAway)), 20, 10, other);
  builder.Call(back, 40, 10);
  builder.Call(convolution, 60, 10, other);
  const Table table = RunPass("layout", builder.Build());
  EXPECT_EQ(table.rows.size(), 2u);
  RowWhere(table, {{"from", "aBcd16b"}, {"written_by", "-"}, {"read_by", "-"}});
  RowWhere(table, {{"from", "abcd"}, {"written_by", "-"}, {"read_by", "-"}});
}

// A weight gradient reads its input and writes weights: what is next to it is not always what it made.
TEST(LayoutTableTest, AResultIsNotAnOperand) {
  ModelBuilder builder;
  builder.Log(Convolution("backward_weights") + kAway + Convolution("backward_data", 32) +
                  Reorder("ABcd16b16a", "abcd", "16x32x3x3") + Convolution("backward_weights", 48),
              1000);
  const Table table = RunPass("layout", builder.Build());
  EXPECT_TRUE(RowsWhere(table, {{"written_by", "convolution backward-weights"}}).empty());
  EXPECT_EQ(RowsWhere(table, {{"written_by", "-"}, {"read_by", "-"}}).size(), 2u);
}

TEST(LayoutTableTest, WeightsAndBiasesAreToldFromActivations) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const Table table = RunPass("layout", builder.Build());
  EXPECT_EQ(RowsWhere(table, {{"dims", "16x16x3x3"}, {"tensor", "weights"}}).size(), 3u);
  EXPECT_EQ(RowsWhere(table, {{"dims", "16x3x3x3"}, {"tensor", "weights"}}).size(), 2u);
  EXPECT_EQ(RowsWhere(table, {{"dims", "16"}}).size(), 2u);
  for (const char* layer : {"conv1", "conv2"}) {
    const size_t bias =
        RowWhere(table, {{"dims", "16"}, {"written_by", absl::StrCat(layer, " backward-weights")}, {"read_by", "-"}});
    EXPECT_EQ(Text(table, bias, "tensor"), "bias");
    EXPECT_EQ(Text(table, bias, "change"), "copy");
    EXPECT_EQ(Integer(table, bias, "calls"), 6);
  }
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

}  // namespace layout_test
}  // namespace dlhook::analyzer
