// The tables `tuning` and `candidates`, and the table `algorithms` for GPU libraries.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

// Two plans tried (times 800 and 300), the second one used twice afterwards; the plans were built in 2000 and 3000
// ticks.
TraceModel AutotunedModel() {
  ModelBuilder builder;
  const OpIndex wait = builder.AddOp(TimedDefinition("cudaEventSynchronize", "cuda_sync"));
  const PlanCall first = {.number = 1, .engine = 10, .build_ticks = 2000};
  const PlanCall second = {.number = 2, .engine = 20, .pack_seen_before = true, .build_ticks = 3000};
  PlanCall used = second;
  used.pack_seen_before = false;
  builder.Call(builder.AddOp(PlanDefinition(first)), 0, 100);
  builder.Call(wait, 200, 600);
  builder.Call(builder.AddOp(PlanDefinition(second)), 1000, 100);
  builder.Call(wait, 1200, 100);
  builder.Call(builder.AddOp(PlanDefinition(used)), 2000, 100);
  builder.Call(builder.AddOp(PlanDefinition(used)), 3000, 150);
  builder.model().processes[0].ticks_per_second = 2000000000;
  return builder.Build(10000);
}

TEST(TuningTableTest, AutotuningAndPlanBuilding) {
  const Table table = RunPass("tuning", AutotunedModel());
  ASSERT_EQ(table.rows.size(), 2u);
  const size_t building = RowWhere(table, {{"activity", "plan building"}});
  EXPECT_EQ(Integer(table, building, "count"), 2);
  EXPECT_EQ(Integer(table, building, "total_time"), 2500);  // 5000 ticks of half a nanosecond
  EXPECT_DOUBLE_EQ(Real(table, building, "run_percent"), 25.0);
  const size_t tuning = RowWhere(table, {{"activity", "autotuning"}});
  EXPECT_EQ(Integer(table, tuning, "count"), 1);
  EXPECT_EQ(Integer(table, tuning, "total_time"), 1300);
  EXPECT_EQ(Integer(table, tuning, "candidates"), 2);
  EXPECT_EQ(Integer(table, tuning, "trials"), 2);
  EXPECT_EQ(Text(table, tuning, "kind"), "convolution");
  EXPECT_EQ(Text(table, tuning, "direction"), "forward");
  EXPECT_NE(Text(table, tuning, "chosen").find("20"), std::string::npos);
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_EQ(table.notes[0], "plan building: 2 times, 2.50 us thread time, 25.0 % of the run.");
}

TEST(TuningTableTest, WithoutAClockTheTimeOfBuildingIsNotKnown) {
  TraceModel model = AutotunedModel();
  model.processes[0].ticks_per_second = 0;
  const Table table = RunPass("tuning", model);
  const size_t building = RowWhere(table, {{"activity", "plan building"}});
  EXPECT_EQ(Integer(table, building, "count"), 2);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, building, "total_time")));
}

TEST(TuningTableTest, SearchesHeuristicsAndCompilations) {
  ModelBuilder builder;
  const OpIndex find = builder.AddOp(SearchDefinition(true,
                                                      "candidate { algorithm: 1 time_ns: 900 workspace_bytes: 64 } "
                                                      "candidate { algorithm: 0 time_ns: "
                                                      "1200 } candidate { algorithm: 6 status: 8 }"));
  const OpIndex ask = builder.AddOp(CudaGemmDefinition(
      "cublasLtMatmulAlgoGetHeuristic", 64, 32, 16, "heuristic_requested: 1 heuristic_results: 1", "kind: HEURISTIC"));
  builder.Call(find, 0, 5000);
  builder.Call(builder.AddOp(LegacyDefinition(1)), 6000, 100);
  for (int i = 0; i < 3; ++i) builder.Call(ask, 7000 + i * 100, 20);
  builder.Call(ask, 8000, 10, 0, 15);
  builder.Call(builder.AddOp(TimedDefinition("nvrtcCompileProgram", "nvrtc")), 9000, 700);
  builder.Call(builder.AddOp(TimedDefinition("nvrtcGetPTXSize", "nvrtc")), 9800, 7);
  const Table table = RunPass("tuning", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Text(table, 0, "activity"), "measuring");
  EXPECT_EQ(Text(table, 0, "kind"), "convolution");
  EXPECT_EQ(Integer(table, 0, "total_time"), 5000);
  EXPECT_EQ(Integer(table, 0, "candidates"), 3);
  EXPECT_EQ(Text(table, 0, "chosen"), "implicit_precomp_gemm");
  EXPECT_EQ(Text(table, 1, "activity"), "compilation");
  EXPECT_EQ(Integer(table, 1, "total_time"), 700);
  EXPECT_EQ(Text(table, 2, "activity"), "heuristics");
  EXPECT_EQ(Text(table, 2, "kind"), "gemm");
  EXPECT_EQ(Integer(table, 2, "count"), 4);
  EXPECT_EQ(Integer(table, 2, "failed"), 1);
  EXPECT_EQ(Integer(table, 2, "total_time"), 70);
}

TEST(TuningTableTest, OverlappingThreadsTakeNoMoreThanTheRun) {
  ModelBuilder builder;
  const OpIndex compile = builder.AddOp(TimedDefinition("nvrtcCompileProgram", "nvrtc"));
  builder.Call(compile, 0, 600);
  builder.Call(compile, 100, 700, builder.AddThread());
  const Table table = RunPass("tuning", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "total_time"), 1300);
  EXPECT_DOUBLE_EQ(Real(table, 0, "run_percent"), 80.0);
  EXPECT_EQ(table.notes[0], "compilation: 2 times, 1.30 us thread time, 80.0 % of the run.");
}

TEST(TuningTableTest, OneDnnsCreations) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const Table table = RunPass("tuning", builder.Build());
  ASSERT_FALSE(table.rows.empty());
  for (size_t row = 0; row < table.rows.size(); ++row) {
    EXPECT_EQ(Text(table, row, "activity"), "creation");
  }
}

TEST(CandidatesTableTest, OfCudnnFind) {
  ModelBuilder builder;
  const OpIndex find =
      builder.AddOp(SearchDefinition(true,
                                     "candidate { algorithm: 1 time_ns: 900 workspace_bytes: 64 math_type: 1 } "
                                     "candidate { algorithm: 1 time_ns: 950 workspace_bytes: 32 } "
                                     "candidate { algorithm: 0 time_ns: 1200 } candidate { algorithm: 6 status: 8 }"));
  builder.Call(find, 0, 5000);
  builder.Call(builder.AddOp(LegacyDefinition(1)), 6000, 100);
  const Table table = RunPass("candidates", builder.Build());
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(Text(table, 0, "candidate"), "implicit_precomp_gemm");
  EXPECT_EQ(Integer(table, 0, "time"), 900);
  EXPECT_EQ(Integer(table, 0, "workspace"), 64);
  EXPECT_EQ(Integer(table, 0, "taken"), 1);
  EXPECT_EQ(Text(table, 0, "source"), "measured");
  EXPECT_EQ(Text(table, 0, "timed_by"), "library");
  EXPECT_EQ(Integer(table, 1, "time"), 950);
  EXPECT_EQ(Integer(table, 1, "taken"), 0);
  EXPECT_EQ(Text(table, 2, "candidate"), "implicit_gemm");
  EXPECT_EQ(Integer(table, 3, "status"), 8);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 3, "time")));
}

TEST(CandidatesTableTest, TakenIsWhatWasExecutedNotWhatCameFirst) {
  ModelBuilder builder;
  builder.Call(
      builder.AddOp(SearchDefinition(false, "candidate { algorithm: 6 time_ns: 5 } candidate { algorithm: 1 }")), 0,
      100);
  builder.Call(builder.AddOp(LegacyDefinition(1)), 1000, 100);
  const Table table = RunPass("candidates", builder.Build());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "source"), "heuristics");
  EXPECT_EQ(Integer(table, 0, "taken"), 0);
  EXPECT_EQ(Text(table, 1, "candidate"), "implicit_precomp_gemm");
  EXPECT_EQ(Integer(table, 1, "taken"), 1);
}

TEST(CandidatesTableTest, OfAutotuning) {
  const Table table = RunPass("candidates", AutotunedModel());
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "source"), "autotuning");
  EXPECT_EQ(Text(table, 0, "timed_by"), "host");
  EXPECT_EQ(Integer(table, 0, "time"), 300);
  EXPECT_EQ(Integer(table, 0, "workspace"), 20 * 1024);
  EXPECT_EQ(Integer(table, 0, "taken"), 1);
  EXPECT_EQ(Integer(table, 0, "trials"), 1);
  EXPECT_EQ(Integer(table, 1, "time"), 800);
  EXPECT_EQ(Integer(table, 1, "taken"), 0);
}

TEST(GpuAlgorithmsTest, TrialsAreNotListed) {
  const Table table = RunPass("algorithms", AutotunedModel());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Text(table, 0, "kind"), "convolution");
  EXPECT_EQ(Text(table, 0, "chooser"), "profiled");
  EXPECT_EQ(Integer(table, 0, "calls"), 2);
  EXPECT_EQ(Integer(table, 0, "total_time"), 250);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 250);
  EXPECT_EQ(Integer(table, 0, "candidates"), 2);
  EXPECT_EQ(Integer(table, 0, "workspace"), 20 * 1024);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 0, "rate")));
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_EQ(table.notes[0].substr(0, 12), "2 executions");
}

TEST(GpuAlgorithmsTest, TrialsAreApartInOpsAndCounted) {
  const TraceModel model = AutotunedModel();
  const Table ops = RunPass("ops", model);
  EXPECT_EQ(Integer(ops, RowWhere(ops, {{"kind", "trial:convolution"}}), "calls"), 2);
  EXPECT_EQ(Integer(ops, RowWhere(ops, {{"kind", "convolution"}}), "calls"), 2);
  EXPECT_EQ(Sum(ops, "wall_share"), 10000);
  const Table summary = RunPass("summary", model);
  EXPECT_EQ(Integer(summary, RowWhere(summary, {{"metric", "trials"}}), "value"), 2);
}

TEST(GpuAlgorithmsTest, FallbacksAreRowsAndANote) {
  ModelBuilder builder;
  const OpIndex lt = builder.AddOp(
      CudaGemmDefinition("cublasLtMatmul", 64, 32, 16,
                         "algorithm: 21 tile: 20 chooser: HEURISTIC heuristic_rank: 0 heuristic_results: 1"));
  const OpIndex gemm =
      builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 64, 32, 16, "algorithm: -1 chooser: LIBRARY"));
  for (int i = 0; i < 3; ++i) {
    builder.Call(lt, i * 1000, 10, 0, 15);
    builder.Call(gemm, i * 1000 + 100, 50);
  }
  builder.Call(gemm, 5000, 50);
  const TraceModel model = builder.Build(10000);
  const Table table = RunPass("algorithms", model);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"chooser", "fallback"}}), "calls"), 3);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"chooser", "library"}}), "calls"), 1);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"chooser", "heuristic"}}), "calls"), 3);
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_EQ(table.notes[0],
            "cublasSgemm_v2 computed 3 products as a fallback after cublasLtMatmul returned status "
            "15.");
  const Table summary = RunPass("summary", model);
  const size_t failed = RowWhere(summary, {{"metric", "failed:cublasLtMatmul"}});
  EXPECT_EQ(Integer(summary, failed, "value"), 3);
  EXPECT_EQ(Text(summary, failed, "note"), "status 15 (3 times)");
  EXPECT_EQ(Integer(summary, RowWhere(summary, {{"metric", "failed_calls"}}), "value"), 3);
}

}  // namespace
}  // namespace dlhook::analyzer
