// Properties of all tables, and the tables `summary`, `ops` and `algorithms`.
#include <gtest/gtest.h>

#include <set>

#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

TraceModel RealModel() {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  return builder.Build(builder.now_ns() + 123457);
}

// Overlapping threads, nested calls, aggregates: everything at once.
TraceModel CrowdedModel() {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread();
  const OpIndex outer = builder.AddOp(GemmDefinition(64, 120, 256, "NT", "cblas_sgemm"));
  const OpIndex inner = builder.AddOp(GemmDefinition(120, 64, 256, "TN", "sgemm_"));
  const OpIndex small = builder.AddOp(GemmDefinition(3, 3, 3, "NN", "sgemm_"));
  trace::OpDefinition timed;
  timed.set_function("cblas_saxpy");
  const OpIndex axpy = builder.AddOp(timed);
  for (int i = 0; i < 7; ++i) {
    builder.Call(outer, i * 1003, 501);
    builder.Call(inner, i * 1003 + 7, 333);
    builder.Call(small, i * 997 + 100, 401, other);
    builder.Call(axpy, i * 997 + 600, 11, other);
  }
  builder.model().aggregates.push_back({.op = small,
                                        .thread = 0,
                                        .window_start_ns = 8000,
                                        .window_end_ns = 9000,
                                        .count = 5,
                                        .sum_ns = 333,
                                        .min_ns = 10,
                                        .max_ns = 100,
                                        .nested_count = 0,
                                        .nested_sum_ns = 0});
  return builder.Build(10007);
}

TEST(AllTablesTest, AreWellFormed) {
  std::set<std::string> names;
  for (const TraceModel& model : {RealModel(), CrowdedModel(), ModelBuilder().Build()}) {
    for (const TableKind& kind : TableKinds()) {
      const Table table = RunPass(std::string(kind.name), model);
      EXPECT_EQ(table.name, kind.name);
      EXPECT_FALSE(table.title.empty());
      EXPECT_FALSE(kind.summary.empty());
      std::set<std::string> columns;
      for (const Column& column : table.columns) {
        EXPECT_TRUE(columns.insert(column.name).second) << table.name << "." << column.name;
        EXPECT_FALSE(column.explanation.empty()) << table.name << "." << column.name;
        EXPECT_TRUE(column.type != ColumnType::kText || column.unit.empty()) << column.name;
        // Others have no values above 100 (TakeAwayNonsense).
        const bool may_exceed = column.name.find("percent") != std::string::npos && column.range == Range::kNotNegative;
        EXPECT_TRUE(!may_exceed || column.explanation.find("more than 100") != std::string::npos) << column.name;
      }
      names.insert(table.name);
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"summary",      "layers",
                                          "accounting",   "phases",
                                          "latency",      "ops",
                                          "algorithms",   "convolutions",
                                          "layout",       "gemm",
                                          "callers",      "stacks",
                                          "copies",       "kernels",
                                          "collectives",  "tuning",
                                          "candidates",   "steps",
                                          "counters",     "counters_over_time",
                                          "capabilities", "devices",
                                          "ranks",        "launches",
                                          "overlap",      "overlap_over_time",
                                          "guided",       "gpu_idle",
                                          "compiled",     "hotspots",
                                          "memory",       "threads"}));
}

TEST(OpsTableTest, WallSharesAddUpToTheWallTime) {
  for (const TraceModel& model : {RealModel(), CrowdedModel()}) {
    const Table table = RunPass("ops", model);
    EXPECT_EQ(Sum(table, "wall_share"), model.wall_ns());
    EXPECT_EQ(Text(table, table.rows.size() - 1, "kind"), "[unattributed]");
    double percent = 0;
    for (size_t row = 0; row < table.rows.size(); ++row) percent += Real(table, row, "wall_percent");
    EXPECT_NEAR(percent, 100.0, 1e-9);
  }
}

TEST(OpsTableTest, EveryCallIsInOneRow) {
  const TraceModel model = CrowdedModel();
  const Table table = RunPass("ops", model);
  EXPECT_EQ(Sum(table, "calls"), 7 + 7 + 7 + 5);  // outer, small, axpy, aggregated small
  EXPECT_EQ(Sum(table, "nested_calls"), 7);
}

TEST(OpsTableTest, ACallInsideACallOfItsKindIsBookedWithIt) {
  const Table table = RunPass("ops", CrowdedModel());
  const size_t row = RowWhere(table, {{"problem", "m64 n120 k256 NT f32"}});
  EXPECT_EQ(Integer(table, row, "calls"), 7);
  EXPECT_EQ(Integer(table, row, "nested_calls"), 7);
  EXPECT_EQ(Integer(table, row, "total_time"), 7 * 501);
  EXPECT_EQ(Integer(table, row, "self_time"), 7 * 501);  // 168 outside and 333 inside
  EXPECT_EQ(Text(table, row, "functions"), "cblas_sgemm, sgemm_");
  EXPECT_EQ(Integer(table, row, "flops"), 2 * 64 * 120 * 256);
  EXPECT_DOUBLE_EQ(Real(table, row, "rate"), 2.0 * 64 * 120 * 256 / 501);
  EXPECT_TRUE(RowsWhere(table, {{"problem", "m120 n64 k256 TN f32"}}).empty());
}

TEST(OpsTableTest, LargestFirst) {
  const Table table = RunPass("ops", RealModel());
  for (size_t row = 1; row + 1 < table.rows.size(); ++row) {
    EXPECT_GE(Integer(table, row - 1, "wall_share"), Integer(table, row, "wall_share"));
  }
}

TEST(OpsTableTest, DirectionsAndCreationsAreApart) {
  const Table table = RunPass("ops", RealModel());
  const std::string problem = "mb8_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1";
  for (const char* direction : {"forward", "backward-data", "backward-weights"}) {
    const size_t row = RowWhere(table, {{"kind", "convolution"}, {"problem", problem}, {"direction", direction}});
    EXPECT_EQ(Integer(table, row, "calls"), 6);
    EXPECT_EQ(Integer(table, row, "flops"), 2 * 8 * 16 * 16 * 1024 * 9);
    EXPECT_EQ(Text(table, row, "implementations"), "jit:avx512_core");
    RowWhere(table, {{"kind", "create:convolution"}, {"problem", problem}, {"direction", direction}});
  }
}

TEST(AlgorithmsTableTest, SeveralImplementationsOfOneProblemAreSeveralRows) {
  const std::string conv =
      ",forward_inference,src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 bia:undef::undef::: "
      "dst:f32::blocked:abcd::f0,attr-post-ops:eltwise_relu,alg:convolution_direct,mb1_ic1oc1_"
      "iw1ow1kw1,";
  ModelBuilder builder;
  builder.Log("onednn_verbose,v1,primitive,create:cache_miss,cpu,convolution,jit:avx2" + conv + "2\n" +
                  "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2" + conv + "0.001\n" +
                  "onednn_verbose,v1,primitive,create:cache_hit,cpu,convolution,jit:avx2" + conv + "0.5\n" +
                  "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2" + conv + "0.003\n" +
                  "onednn_verbose,v1,primitive,exec,cpu,convolution,gemm:jit" + conv + "0.010\n",
              10);
  const Table table = RunPass("algorithms", builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "implementation"), "gemm:jit");
  EXPECT_EQ(Integer(table, 0, "calls"), 1);
  EXPECT_EQ(Integer(table, 0, "total_time"), 10000);
  EXPECT_EQ(Integer(table, 0, "cache_misses"), 0);
  EXPECT_EQ(Text(table, 1, "implementation"), "jit:avx2");
  EXPECT_EQ(Integer(table, 1, "calls"), 2);
  EXPECT_EQ(Integer(table, 1, "mean_time"), 2000);
  EXPECT_EQ(Integer(table, 1, "cache_hits"), 1);
  EXPECT_EQ(Integer(table, 1, "cache_misses"), 1);
  EXPECT_EQ(Integer(table, 1, "creation_time"), 2500000);
  EXPECT_EQ(Text(table, 1, "algorithm"), "convolution_direct");
  EXPECT_EQ(Text(table, 1, "post_ops"), "eltwise_relu");
  EXPECT_EQ(Text(table, 1, "formats"), "src:abcd wei:abcd dst:abcd");
}

TEST(AlgorithmsTableTest, SaysWhatItLeavesOut) {
  const Table table = RunPass("algorithms", CrowdedModel());
  EXPECT_TRUE(table.rows.empty());
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_EQ(table.notes[0].substr(0, 9), "33 calls ");
}

TEST(SummaryTableTest, TellsTimesAndCounts) {
  const TraceModel model = CrowdedModel();
  const Table table = RunPass("summary", model);
  const RunTotals totals = ComputeTotals(model);
  const auto value = [&](const std::string& metric) {
    return Integer(table, RowWhere(table, {{"metric", metric}}), "value");
  };
  EXPECT_EQ(value("wall"), 10007);
  EXPECT_EQ(value("in_library_wall") + value("unattributed_wall"), 10007);
  EXPECT_EQ(value("thread_time"), 7 * (501 + 401 + 11) + 333);
  EXPECT_EQ(value("in_library_wall"), totals.in_library_wall_ns);
  EXPECT_EQ(value("processes"), 1);
  EXPECT_EQ(value("threads"), 2);
  EXPECT_EQ(value("calls"), 7 * 4 + 5);
  EXPECT_EQ(value("nested_calls"), 7);
  EXPECT_EQ(value("aggregated_calls"), 5);
  EXPECT_EQ(value("lost_calls"), 0);
}

TEST(SummaryTableTest, TellsSteps) {
  const Table table = RunPass("summary", RealModel());
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "steps"}}), "value"), 6);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "creations"}}), "value"), 120);
}

TEST(SummaryTableTest, TellsWhatFrameworksAndPythonTold) {
  ModelBuilder builder;
  const StackIndex stack = builder.AddStack({{"train.py", "<module>", 7, builder.AddModule("mine.Net", {""})}});
  const OpIndex gemm = builder.AddOp(GemmDefinition(8, 8, 8, "NN"));
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 0, 100, 0, 3, stack);
  builder.Scope("MmBackward0", ScopeKind::kBackwardNode, 200, 100, 0, 3, stack);
  builder.Call(gemm, 10, 50);
  builder.Call(gemm, 400, 50);
  TraceModel model = builder.Build(1000);
  model.scope_windows = {{0, 0, 250}};
  model.processes[0].losses.emplace_back();
  model.processes[0].losses.back().reason = LossReason::kTraceLimit;
  model.processes[0].losses.back().calls = 9;
  const Table table = RunPass("summary", model);
  const auto row = [&](const std::string& metric) { return RowWhere(table, {{"metric", metric}}); };
  EXPECT_EQ(Integer(table, row("scopes"), "value"), 2);
  EXPECT_EQ(Text(table, row("scopes"), "note"), "operators 1, backward nodes 1");
  EXPECT_EQ(Integer(table, row("calls_in_scopes"), "value"), 1);
  EXPECT_EQ(Real(table, row("calls_in_scopes"), "percent"), 50);
  EXPECT_EQ(Real(table, row("scope_windows"), "percent"), 25);
  EXPECT_EQ(Integer(table, row("python_stacks"), "value"), 1);
  EXPECT_EQ(Integer(table, row("python_modules"), "value"), 1);
  EXPECT_EQ(Integer(table, row("lost_calls"), "value"), 0);  // those are scopes
  EXPECT_EQ(Text(table, row("loss:trace_limit"), "note"), "scopes");
}

TEST(SummaryTableTest, TellsWhatCouldNotBeSeen) {
  TraceModel model = CrowdedModel();
  ProcessInfo& process = model.processes[0];
  process.has_footer = false;
  process.losses.emplace_back();
  process.losses.back().reason = LossReason::kRingFull;
  process.losses.back().calls = 1200;
  process.losses.emplace_back();
  process.losses.back().reason = LossReason::kOutputFull;
  process.losses.back().calls = 34;
  process.losses.back().bytes = 4096;
  process.losses.back().detail = "No space left on device";
  process.capabilities.emplace_back();
  process.capabilities.back().name = "onednn-tap";
  process.capabilities.back().state = CapabilityState::kRefused;
  process.capabilities.back().object = "/usr/lib/libopenvino_intel_cpu_plugin.so";
  process.capabilities.back().reason = "unknown oneDNN build";
  model.oddities["calls of an op that was never defined"] = 3;
  const Table table = RunPass("summary", model);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "lost_calls"}}), "value"), 1234);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "loss:ring_full"}}), "value"), 1200);
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "loss:output_full"}}), "note"),
            "4096 bytes; No space left on device");
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "capability:onednn-tap"}}), "note"),
            "refused in libopenvino_intel_cpu_plugin.so: unknown oneDNN build");
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "processes_without_end"}}), "value"), 1);
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "oddity"}}), "note"), "calls of an op that was never defined");
}

}  // namespace
}  // namespace dlhook::analyzer
