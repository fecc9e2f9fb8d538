// Timelines of hand-written models: slices that nest, tracks, flows, many layers. tests/preload_e2e/test_timelines.py reads the formats.
#include "analyzer/export/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/export/exporter.h"
#include "analyzer/profile/profile_builder.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

// Keeps everything, and checks that slices nest.
class Recorder : public TimelineWriter {
 public:
  explicit Recorder(const TraceModel& model) {
    const LayerAnalysis analysis(model);
    WalkTimeline({model, analysis, {}}, texts_, *this);
    for (const auto& [track, open] : open_) EXPECT_TRUE(open.empty());
  }

  // "track: name 10+5", with arguments that are asked for.
  std::vector<std::string> slices;
  std::vector<std::pair<uint64_t, std::string>> flows;
  std::set<std::string> layers;
  std::map<std::string, int64_t> recorded_ns;  // duration_ns by name

  void Process(ProcessIndex, TextIndex, TextIndex) override {}
  void Track(const TimelineTrack& track) override {
    EXPECT_EQ(track.index, tracks_.size());
    tracks_.push_back(texts_[track.name]);
  }
  void Begin(const TimelineSlice& slice) override {
    auto& open = open_[slice.track];
    const int64_t least_ns =
        open.empty() ? closed_ns_[slice.track] : std::max(open.back().first, closed_ns_[slice.track]);
    EXPECT_LE(least_ns, slice.start_ns);
    EXPECT_LE(slice.start_ns, slice.end_ns);
    if (!open.empty()) {
      EXPECT_LE(slice.end_ns, open.back().second);
    }
    open.emplace_back(slice.start_ns, slice.end_ns);
    const std::string& name = texts_[slice.name];
    slices.push_back(
        absl::StrCat(tracks_[slice.track], ": ", name, " ", slice.start_ns, "+", slice.end_ns - slice.start_ns));
    for (const TimelineFlow& flow : slice.starts) flows.emplace_back(flow.id, "from " + name);
    for (const TimelineFlow& flow : slice.ends) flows.emplace_back(flow.id, "to " + name);
    for (const TimelineArg& arg : slice.args) {
      if (texts_[arg.key] == "layer") layers.insert(texts_[std::get<TextIndex>(arg.value)]);
      if (texts_[arg.key] == "duration_ns") recorded_ns[name] = std::get<int64_t>(arg.value);
    }
  }
  void End(TrackIndex track, int64_t time_ns) override {
    ASSERT_FALSE(open_[track].empty());
    EXPECT_EQ(open_[track].back().second, time_ns);
    closed_ns_[track] = time_ns;
    open_[track].pop_back();
  }
  void Instant(const TimelineSlice&) override {}
  void Count(TrackIndex, int64_t, double) override {}
  bool ok() const override { return true; }

 private:
  TimelineTexts texts_;
  std::vector<std::string> tracks_;
  std::map<TrackIndex, std::vector<std::pair<int64_t, int64_t>>> open_;
  std::map<TrackIndex, int64_t> closed_ns_;
};

using Lines = std::vector<std::string>;

std::string Sgemm(const std::string& times) { return absl::StrCat(": sgemm_ m8 n4 k2 NN f32 ", times); }

// A call that a log reported: its end is late and its start coarse, but its number says where it belongs.
TEST(Timeline, CutsACoarseCallToItsScope) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  builder.Scope("first", ScopeKind::kUserRange, 0, 100);
  builder.Scope("second", ScopeKind::kUserRange, 100, 50);
  builder.Call(gemm, 80, 60);
  TraceModel model = builder.Build();
  model.threads[0].name = "t";
  model.calls.scope[0] = 1;
  const Recorder found(model);
  EXPECT_EQ(found.slices, (Lines{"t: first 0+100", "t: second 100+50", "t" + Sgemm("100+40")}));
  EXPECT_EQ(found.recorded_ns.size(), 1u);
  EXPECT_EQ(found.recorded_ns.begin()->second, 60);
}

TEST(Timeline, CallsAndScopesThatDisagreeStillNest) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  builder.Call(gemm, 0, 30);
  builder.Scope("begins in a call", ScopeKind::kUserRange, 20, 50);
  builder.Call(gemm, 60, 30);  // ends after it
  builder.Scope("empty", ScopeKind::kUserRange, 65, 0);
  const TraceModel model = builder.Build();
  const Recorder found(model);
  EXPECT_EQ(std::count_if(found.slices.begin(), found.slices.end(),
                          [](const std::string& slice) { return !absl::StartsWith(slice, "steps: "); }),
            4);
}

TEST(Timeline, WorkOfOneStreamThatOverlapsHasTwoTracks) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  builder.Call(gemm, 0, 10);
  TraceModel model = builder.Build(200);
  model.threads[0].name = "t";
  AddGpuWork({{.start_ns = 20, .duration_ns = 50, .asked_by_ns = 0, .kernel = "one(float*)"},
              {.start_ns = 40, .duration_ns = 50, .asked_by_ns = 0, .kernel = "two(float*)"},
              {.start_ns = 70, .duration_ns = 5, .kernel = "three(float*)"}},
             &model);
  const Recorder found(model);
  const std::string stream = absl::StrCat("GPU 0, stream ", model.gpu.stream[0]);
  EXPECT_EQ(found.slices, (Lines{"t" + Sgemm("0+10"), stream + ": one(float*) 20+50",
                                 stream + " (2): two(float*) 40+50", stream + ": three(float*) 70+5"}));
  ASSERT_EQ(found.flows.size(), 4u);  // of the two that the call asked for
  std::map<uint64_t, int> ends;
  for (const auto& [id, what] : found.flows) ++ends[id];
  EXPECT_EQ(ends.size(), 2u);
}

TEST(Timeline, LeadsFromAnOpToItsBackwardNode) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t at = step * 1000;
    builder.Scope("aten::linear", ScopeKind::kFrameworkOp, at, 100, 0, step);
    builder.Call(gemm, at + 10, 50);
    builder.Scope("autograd::engine::evaluate_function: AddmmBackward0", ScopeKind::kBackwardNode, at + 200, 100, 0,
                  step);
    builder.Scope("AddmmBackward0", ScopeKind::kBackwardNode, at + 210, 80, 0, step);
    builder.Call(gemm, at + 220, 50);
  }
  const TraceModel model = builder.Build();
  const Recorder found(model);
  std::map<uint64_t, std::set<std::string>> ends;
  for (const auto& [id, what] : found.flows) ends[id].insert(what);
  EXPECT_EQ(ends.size(), 3u);
  const std::set<std::string> expected = {"from aten::linear",
                                          "to autograd::engine::evaluate_function: AddmmBackward0"};
  for (const auto& [id, what] : ends) EXPECT_EQ(what, expected);
}

// What works for a layer is one slice of its own track, with the gaps in it; what has no layer of its own works for the one
// around it, and another layer inside takes its time away.
TEST(Timeline, LayersHaveATrack) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  const ModuleIndex net = builder.AddModule("Net", {""});
  const auto stack = [&](const char* name, uint32_t line) {
    const ModuleIndex module = builder.AddModule("torch.nn.modules.linear.Linear", {name}, net, net);
    return builder.AddStack(
        {{"/t/torch/nn/modules/linear.py", "Linear.forward", 5, module}, {"net.py", "Net.forward", line, net}});
  };
  const StackIndex first = stack("fc1", 1), second = stack("fc2", 2);
  builder.Scope("aten::linear", ScopeKind::kFrameworkOp, 0, 90, 0, -1, first);
  builder.Call(gemm, 10, 50);
  builder.Scope("aten::add", ScopeKind::kFrameworkOp, 100, 10, 0, -1, first);
  builder.Scope("aten::linear", ScopeKind::kFrameworkOp, 200, 100, 0, -1, second);
  builder.Scope("aten::linear", ScopeKind::kFrameworkOp, 220, 30, 0, -1, first);
  TraceModel model = builder.Build(400);
  model.threads[0].name = "t";
  const Recorder found(model);
  Lines layers;
  for (const std::string& slice : found.slices) {
    if (absl::StartsWith(slice, "layers of t ")) layers.push_back(slice.substr(slice.find(": ") + 2));
  }
  EXPECT_EQ(layers, (Lines{"Net: fc1 forward 0+110", "Net: fc2 forward 200+20", "Net: fc1 forward 220+30",
                           "Net: fc2 forward 250+50"}));
}

// A network of ten thousand layers, in every format.
TEST(Timeline, TenThousandLayers) {
#ifdef __SANITIZE_ADDRESS__  // ten times slower
  constexpr int kLayers = 1'000;
#else
  constexpr int kLayers = 10'000;
#endif
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  const ModuleIndex net = builder.AddModule("Net", {""});
  for (int layer = 0; layer < kLayers; ++layer) {
    const ModuleIndex module =
        builder.AddModule("torch.nn.modules.linear.Linear", {absl::StrCat("fc", layer)}, net, net);
    const StackIndex stack = builder.AddStack({{"/t/torch/nn/modules/linear.py", "Linear.forward", 5, module},
                                               {"net.py", "Net.forward", static_cast<uint32_t>(layer + 1), net}});
    builder.Scope("aten::linear", ScopeKind::kFrameworkOp, layer * 100, 90, 0, -1, stack);
    builder.Call(gemm, layer * 100 + 10, 50);
  }
  const TraceModel model = builder.Build();
  const Recorder found(model);
  EXPECT_EQ(found.layers.size(), size_t{kLayers});
  const LayerAnalysis analysis(model);
  for (const Exporter& exporter : Exporters()) {
    size_t bytes = 0;
    if (exporter.of_profile != nullptr) bytes = exporter.of_profile(BuildProfile(model, analysis, {}), {}).size();
    if (exporter.of_timeline != nullptr) {
      ExportOutput output([&](absl::string_view piece) {
        bytes += piece.size();
        return absl::OkStatus();
      });
      exporter.of_timeline({model, analysis, {}}, output);
      EXPECT_TRUE(output.Finish().ok());
    }
    if (exporter.of_tables == nullptr) {
      EXPECT_GT(bytes, 500u) << exporter.name;
    }
  }
  const TemporaryFolder folder;
  EXPECT_TRUE(ExportSqlite({model, analysis, {}}, {}, {}, folder.path() + "/run.sqlite").ok());
}

}  // namespace
}  // namespace dlhook::analyzer
