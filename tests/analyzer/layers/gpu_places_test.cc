// Where GPU work belongs, and how a GPU's time is divided.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using Kind = GpuActivityKind;

TEST(AttributionTest, NamesHaveTheirNetworkWhereAnotherHasTheSame) {
  Attribution attribution;
  attribution.Add({.model = "Generator", .name = "0"});
  attribution.Add({.model = "Critic", .name = "0"});
  attribution.Add({.model = "Critic", .name = "2"});
  EXPECT_EQ(attribution.NameOf(0), "Generator: 0");
  EXPECT_EQ(attribution.NameOf(2), "2");
}

TEST(GpuPlacesTest, OfTheCallOfThoseAroundItElseOfTheScope) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(LegacyDefinition(1)), 0, 100);
  builder.Call(builder.AddOp(LaunchDefinition("conv")), 10, 20);
  builder.Scope("aten::add", ScopeKind::kFrameworkOp, 200, 100);
  builder.Call(builder.AddOp(LaunchDefinition("add")), 210, 20);
  TraceModel model = builder.Build(1000);
  AddGpuWork({{.start_ns = 300, .duration_ns = 5, .asked_by_ns = 10},
              {.start_ns = 310, .duration_ns = 5, .asked_by_ns = 210},
              {.start_ns = 320, .duration_ns = 5}},
             &model);
  Attribution attribution;
  attribution.layers.resize(2);
  attribution.of_call.resize(model.calls.size());
  attribution.of_scope.Fill(model.scopes.size(), Place());
  attribution.of_call[0] = {0, LayerDirection::kForward};
  attribution.of_scope.Set(0, {1, LayerDirection::kBackward});
  const std::vector<Place> places = GpuPlaces(model, attribution);
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].layer, 0u);
  EXPECT_EQ(places[0].direction, LayerDirection::kForward);
  EXPECT_EQ(places[1].layer, 1u);
  EXPECT_EQ(places[1].direction, LayerDirection::kBackward);
  EXPECT_EQ(places[2].layer, kNone);
}

TEST(GpuPlacesTest, KindsOfWork) {
  ModelBuilder builder;
  builder.Call(
      builder.AddOp(Definition("function: 'ncclAllReduce' family: 'nccl' collective { kind: ALL_REDUCE bytes: 64 }")),
      0, 10);
  builder.Call(builder.AddOp(CopyDefinition("cudaMemcpyAsync", "direction: HOST_TO_DEVICE bytes: 9")), 20, 10);
  TraceModel model = builder.Build(1000);
  AddGpuWork({{.start_ns = 100, .duration_ns = 1, .asked_by_ns = 0, .kernel = "k"},
              {.start_ns = 101, .duration_ns = 1, .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
              {.start_ns = 102, .duration_ns = 1, .kernel = "gemm"},
              {.kind = Kind::kCopy, .start_ns = 103, .duration_ns = 1},
              {.kind = Kind::kSet, .start_ns = 104, .duration_ns = 1},
              {.kind = Kind::kOp, .start_ns = 105, .duration_ns = 1, .asked_by_ns = 20},
              {.kind = Kind::kGraph, .start_ns = 106, .duration_ns = 1}},
             &model);
  std::vector<GpuWork> works;
  for (GpuIndex i = 0; i < model.gpu.size(); ++i) works.push_back(GpuWorkOf(model, i));
  EXPECT_EQ(works, (std::vector<GpuWork>{GpuWork::kCommunication, GpuWork::kCommunication, GpuWork::kCompute,
                                         GpuWork::kCopy, GpuWork::kCopy, GpuWork::kCopy, GpuWork::kCompute}));
}

// DDP's reduction of a bucket is launched where the last of its gradients is ready.
TEST(GpuPlacesTest, CommunicationIsOfNoLayer) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(LaunchDefinition("launch")), 0, 10);
  TraceModel model = builder.Build(1000);
  AddGpuWork(
      {{.start_ns = 100, .duration_ns = 1, .asked_by_ns = 0, .kernel = "gemm"},
       {.start_ns = 101, .duration_ns = 1, .asked_by_ns = 0, .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}},
      &model);
  Attribution attribution;
  attribution.layers.resize(1);
  attribution.of_call = {{.layer = 0, .direction = LayerDirection::kBackward}};
  const std::vector<Place> places = GpuPlaces(model, attribution);
  EXPECT_EQ(places[0].layer, 0u);
  EXPECT_EQ(places[1].layer, kNone);
  EXPECT_EQ(places[1].direction, LayerDirection::kBackward);
}

// A step that consists of a graph launch: the ops that the graph's nodes were captured for, in the order of the GPU.
TEST(GraphReplaysTest, ALaunchIsTheStepThatWasCaptured) {
  ModelBuilder builder;
  for (int64_t start_ns : {0, 20, 40}) builder.Call(builder.AddOp(LaunchDefinition("captured")), start_ns, 10);
  for (int64_t start_ns : {100, 200})
    builder.Call(builder.AddOp(TimedDefinition("cudaGraphLaunch", "cuda_graph")), start_ns, 30);
  TraceModel model = builder.Build(1000);
  std::vector<TestGpuWork> work;
  for (int64_t launch_ns : {100, 200}) {
    for (int64_t captured_ns : {0, 0, 20, 40}) {  // two kernels of the forward pass
      const auto start_ns = launch_ns + 300 + 10 * static_cast<int64_t>(work.size());
      work.push_back({.start_ns = start_ns,
                      .duration_ns = 5,
                      .asked_by_ns = launch_ns,
                      .graph = 1,
                      .captured_by_ns = captured_ns});
    }
  }
  AddGpuWork(work, &model);
  Attribution attribution;
  attribution.layers.resize(2);
  attribution.of_call.resize(model.calls.size());
  attribution.of_call[0] = {0, LayerDirection::kForward};
  attribution.of_call[1] = {0, LayerDirection::kBackwardWeights};
  attribution.of_call[2] = {1, LayerDirection::kUpdate};
  std::map<int64_t, std::vector<MomentKind>> by_launch;
  for (const Moment& moment : CollectMoments(model, attribution, 0).moments) {
    if (moment.start_ns < 100) continue;
    by_launch[moment.start_ns / 100].push_back(moment.kind);
    EXPECT_LE(moment.end_ns, moment.start_ns / 100 * 100 + 30);
  }
  const std::vector<MomentKind> step = {MomentKind::kForward, MomentKind::kBackward, MomentKind::kUpdate};
  EXPECT_EQ(by_launch, (std::map<int64_t, std::vector<MomentKind>>{{1, step}, {2, step}}));
}

// Against the definition, nanosecond by nanosecond.
TEST(GpuDivisionTest, EveryNanosecondIsDividedEqually) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    TraceModel model = ModelBuilder().Build(300);
    std::vector<TestGpuWork> work;
    for (int i = 0; i < 12; ++i) {
      const auto start_ns = static_cast<int64_t>(random() % 250), duration_ns = static_cast<int64_t>(random() % 40);
      work.push_back(
          {.start_ns = start_ns, .duration_ns = duration_ns, .ordinal = static_cast<uint32_t>(random() % 2)});
    }
    AddGpuWork(work, &model);
    const IntervalSet time({{20, 120}, {150, 260}});
    for (GpuDeviceIndex device = 0; device < model.gpu_devices.size(); ++device) {
      std::map<GpuIndex, double> expected;
      for (const Interval& interval : time.intervals()) {
        for (int64_t ns = interval.start_ns; ns < interval.end_ns; ++ns) {
          std::vector<GpuIndex> running;
          for (GpuIndex i = 0; i < model.gpu.size(); ++i) {
            if (model.gpu.device[i] == device && model.gpu.start_ns[i] <= ns && ns < model.gpu.end_ns[i])
              running.push_back(i);
          }
          if (running.empty()) expected[kNone] += 1;
          for (GpuIndex i : running) expected[i] += 1.0 / static_cast<double>(running.size());
        }
      }
      std::map<GpuIndex, int64_t> shares;
      int64_t sum_ns = 0;
      DivideGpuTime(model, device, time, [&](const GpuTimePiece& piece) {
        shares[piece.activity] += piece.share_ns;
        sum_ns += piece.share_ns;
      });
      EXPECT_EQ(sum_ns, time.total_ns());
      EXPECT_EQ(shares[kNone], static_cast<int64_t>(expected[kNone]));
      for (const auto& [activity, share] : expected) {
        EXPECT_NEAR(static_cast<double>(shares[activity]), share, 12)
            << seed << " " << activity;  // a nanosecond a piece
      }
    }
  }
}

TEST(GpuDivisionTest, TimeWithoutASourceIsBlind) {
  TraceModel model = ModelBuilder().Build(1000);
  EXPECT_TRUE(GpuBlindTime(model, 0).empty());
  model.gpu_windows = {{0, 100, 400, GpuTimeSource::kCupti, ""},
                       {0, 400, 600, GpuTimeSource::kNone, "taken"},
                       {0, 600, 900, GpuTimeSource::kEvents, ""}};
  EXPECT_EQ(GpuBlindTime(model, 0).intervals(), (std::vector<Interval>{{0, 100}, {400, 600}, {900, 1000}}));
}

}  // namespace
}  // namespace dlhook::analyzer
