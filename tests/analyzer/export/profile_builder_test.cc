// The stack of each call, and that nothing is lost or counted twice.
#include "analyzer/profile/profile_builder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/calls/choices.h"
#include "analyzer/export/exporter.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using Kind = ScopeKind;

std::string FoldedSteps(const TraceModel& model, const ProfileOptions& options = {}, const ExportOptions& format = {}) {
  return ExportFolded(BuildProfile(model, LayerAnalysis(model), options), format);
}

// Of library calls alone.
std::string Folded(const TraceModel& model, ProfileOptions options = {}, const ExportOptions& format = {}) {
  options.library_only = true;
  return FoldedSteps(model, options, format);
}

TEST(ProfileBuilder, PutsScopesWhereTheirPythonStackLeavesTheCalls) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  // The scope began in record_function.__enter__, which had returned when fit() continued on another line.
  const StackIndex outer =
      builder.AddStack({{"torch.py", "__enter__", 5}, {"train.py", "fit", 10}, {"train.py", "main", 3}});
  const StackIndex inner =
      builder.AddStack({{"net.py", "Net.forward", 7}, {"train.py", "fit", 11}, {"train.py", "main", 3}});
  builder.Scope("step", Kind::kUserRange, 0, 100, 0, -1, outer);
  builder.Scope("aten::linear", Kind::kFrameworkOp, 10, 50, 0, -1, inner);
  builder.Scope("aten::addmm", Kind::kFrameworkOp, 12, 40, 0, -1);
  builder.Call(gemm, 20, 30);
  const TraceModel model = builder.Build();
  EXPECT_EQ(
      Folded(model),
      "main (train.py);fit (train.py);step;Net.forward (net.py);aten::linear;aten::addmm;sgemm_ m8 n4 k2 NN f32 30\n");
  EXPECT_EQ(Folded(model, {.frames = {.python = false}}), "step;aten::linear;aten::addmm;sgemm_ m8 n4 k2 NN f32 30\n");
  EXPECT_EQ(Folded(model, {.frames = {.scopes = false}}, {.with_lines = true}),
            "main (train.py:3);fit (train.py:11);Net.forward (net.py:7);sgemm_ m8 n4 k2 NN f32 30\n");
}

TEST(ProfileBuilder, DividesAStep) {
  ModelBuilder builder;
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 4, 2, "NN"));
  const StackIndex stack = builder.AddStack({{"net.py", "Net.forward", 7}, {"train.py", "main", 3}});
  builder.Scope("enumerate(DataLoader)#Iter.__next__", Kind::kUserRange, 10, 5, 0, -1, stack);
  builder.Scope("aten::linear", Kind::kFrameworkOp, 20, 50, 0, -1, stack);
  builder.Call(gemm, 30, 30);
  const TraceModel model = builder.Build(200);
  EXPECT_EQ(FoldedSteps(model, {.frames = {.scopes = false}}),
            "main (train.py);Net.forward (net.py);[not seen] 5\n"
            "main (train.py);Net.forward (net.py);aten::linear [framework] 20\n"
            "main (train.py);Net.forward (net.py);enumerate(DataLoader)#Iter.__next__ [data loading] 5\n"
            "main (train.py);Net.forward (net.py);sgemm_ m8 n4 k2 NN f32 [library] 30\n");
  EXPECT_EQ(FoldedSteps(model, {.frames = {.python = false}, .function = "sgemm_"}),
            "aten::linear [framework];sgemm_ m8 n4 k2 NN f32 [library] 30\n");
  EXPECT_EQ(FoldedSteps(model, {.frames = {.python = false}}, {.weight = Weight::kFlops}),
            "aten::linear [framework];sgemm_ m8 n4 k2 NN f32 [library] 128\n");
}

TEST(ProfileBuilder, DividesARunWithoutSteps) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(GemmDefinition(8, 4, 2, "NN")), 30, 30);
  EXPECT_EQ(FoldedSteps(builder.Build(100)), "[unattributed] 70\nsgemm_ m8 n4 k2 NN f32 [library] 30\n");
}

TEST(ProfileBuilder, PutsACallUnderTheCallItWasMadeIn) {
  ModelBuilder builder;
  const OpIndex outer = builder.AddOp(Definition("function: 'outer' family: 'blas' time_source: CLOCK_TICKS"));
  const OpIndex inner = builder.AddOp(Definition("function: 'inner' family: 'blas' time_source: CLOCK_TICKS"));
  builder.Call(outer, 0, 100);
  builder.NativeStackOfLastCall(builder.AddNativeStack({"layer", "main"}));
  builder.Call(inner, 10, 30);  // implemented by outer
  builder.NativeStackOfLastCall(builder.AddNativeStack({"block", "outer", "layer", "main"}));
  builder.Call(inner, 50, 20);  // too short for a stack
  const TraceModel model = builder.Build();
  EXPECT_EQ(Folded(model), "main;layer;outer 50\nmain;layer;outer;inner 20\nmain;layer;outer;outer;block;inner 30\n");
  EXPECT_EQ(Folded(model, {.frames = {.native = false}}), "outer 50\nouter;inner 50\n");
}

TEST(ProfileBuilder, ChoosesCallsAndWhatRunsInThem) {
  ModelBuilder builder;
  const OpIndex outer = builder.AddOp(Definition("function: 'outer' family: 'blas' time_source: CLOCK_TICKS"));
  const OpIndex inner = builder.AddOp(Definition("function: 'inner' family: 'blas' time_source: CLOCK_TICKS"));
  builder.Call(outer, 0, 100);
  builder.Call(inner, 10, 30);
  builder.Call(inner, 200, 7);
  const TraceModel model = builder.Build();
  EXPECT_EQ(Folded(model, {.function = "outer"}), "outer 70\nouter;inner 30\n");
  EXPECT_EQ(Folded(model, {.function = "inner"}), "inner 37\n");
  EXPECT_EQ(Folded(model, {.function = "inner"}, {.weight = Weight::kCalls}), "inner 2\n");
}

TEST(ProfileBuilder, CountsWorkOnceForACallAndItsOtherViews) {
  ModelBuilder builder;
  const OpIndex outer = builder.AddOp(GemmDefinition(8, 4, 2, "NN", "cblas_sgemm"));
  const OpIndex inner = builder.AddOp(GemmDefinition(8, 4, 2, "NN", "sgemm_"));
  builder.Call(outer, 0, 100);
  builder.Call(inner, 10, 80);
  const TraceModel model = builder.Build();
  EXPECT_EQ(Folded(model, {}, {.weight = Weight::kFlops}), "cblas_sgemm m8 n4 k2 NN f32 128\n");
  EXPECT_EQ(BuildProfile(model, LayerAnalysis(model), {.library_only = true}).Sum(),
            (Weights{100, 2, 128, (8 * 2 + 2 * 4 + 8 * 4) * 4}));
}

// Calls, nested ones, and totals of calls that were not kept.
std::string AggregatedTrace() {
  return HeaderText("pid: 7 program: 'python3' script: 'train.py'") + OpsText() + R"pb(
    packet { thread { thread_id: 1 tid: 8 name: "worker" } }
    packet {
      call_batch {
        thread_id: 1
        op_iid: [ 2, 1 ]
        sequence_delta: [ 1, -2 ]
        end_delta_ticks: [ 500, 100 ]
        duration: [ 300, 500 ]
        parent_distance: [ 1, 0 ]
      }
    }
    packet {
      call_aggregate {
        thread_id: 1
        op_iid: 2
        window_start_ticks: 1000
        window_end_ticks: 9000
        count: 10
        sum: 4000
        min: 100
        max: 900
        nested_count: 4
        nested_sum: 1000
      }
    })pb";
}

TEST(ProfileBuilder, KeepsAggregatesApart) {
  const TraceModel model = LoadText(AggregatedTrace());
  EXPECT_EQ(Folded(model, {.frames = {.process = true, .thread = true}}),
            "python3 train.py (process 7);worker (thread 8);[no stack kept];inner 3000\n"
            "python3 train.py (process 7);worker (thread 8);outer 200\n"
            "python3 train.py (process 7);worker (thread 8);outer;inner 300\n");
  EXPECT_EQ(Folded(model, {}, {.weight = Weight::kCalls}), "[no stack kept];inner 10\nouter 1\nouter;inner 1\n");
  EXPECT_EQ(Folded(model, {.frames = {.layer = true}, .function = "outer"}),
            "[no layer];outer 200\n[no layer];outer;inner 300\n");
}

std::vector<std::string> GoldenTraces() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(DLHOOK_GOLDEN)) {
    if (entry.path().extension() != ".textproto") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// All time, calls and work, whichever frames are requested.
TEST(ProfileBuilder, AddsUpToTheTotalsOfTheRun) {
  std::vector<std::string> texts = GoldenTraces();
  ASSERT_GE(texts.size(), 5u);
  texts.push_back(AggregatedTrace());
  for (const std::string& text : texts) {
    TraceModel model = LoadText(text);
    ResolveChoices(&model);
    const RunTotals totals = ComputeTotals(model);
    Weights expected = {totals.thread_time_ns};
    for (OpIndex op = 0; op < model.ops.size(); ++op) {
      const OpTotals& sum = totals.ops[op];
      AddTo({0, sum.calls, (sum.calls - sum.nested_calls) * model.ops[op].flops.value_or(0),
             (sum.calls - sum.nested_calls) * model.ops[op].bytes.value_or(0)},
            expected);
    }
    const LayerAnalysis analysis(model);
    for (const FrameChoice& frames : {FrameChoice(), FrameChoice{.process = true, .thread = true, .layer = true},
                                      FrameChoice{.python = false, .scopes = false}}) {
      EXPECT_EQ(BuildProfile(model, analysis, {.frames = frames, .library_only = true}).Sum(), expected)
          << text.substr(0, 300);
    }
  }
}

// The steps, by kind of activity: as the table `accounting` divides them. So does the table `stacks`.
TEST(ProfileBuilder, AddsUpToAccounting) {
  for (const std::string& text : GoldenTraces()) {
    TraceModel model = LoadText(text);
    ResolveChoices(&model);
    const Table table = RunPass("accounting", LoadText(text));
    std::map<std::string, int64_t> expected, found;
    for (size_t row = 0; row < table.rows.size(); ++row) {
      expected[Text(table, row, "activity")] += Integer(table, row, "wall_share");
    }
    for (const FrameChoice& frames : {FrameChoice(), FrameChoice{.process = true, .thread = true, .layer = true},
                                      FrameChoice{.python = false, .scopes = false}}) {
      const LayerAnalysis analysis(model);
      const Profile profile = BuildProfile(model, analysis, {.frames = frames});
      found.clear();
      for (const ProfileSample& sample : profile.samples()) {
        const int64_t time_ns = sample.weights[static_cast<size_t>(Weight::kTime)];
        if (time_ns > 0) found[profile.labels()[sample.labels].kind] += time_ns;
      }
      EXPECT_EQ(found, expected) << text.substr(0, 300);
    }
    found.clear();
    const Table stacks = RunPass("stacks", LoadText(text));
    for (size_t row = 0; row < stacks.rows.size(); ++row) {
      const int64_t time_ns = Integer(stacks, row, "time");
      if (time_ns > 0) found[Text(stacks, row, "kind")] += time_ns;
    }
    EXPECT_EQ(found, expected) << text.substr(0, 300);
  }
}

}  // namespace
}  // namespace dlhook::analyzer
