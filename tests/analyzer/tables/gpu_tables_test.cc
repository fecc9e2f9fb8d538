// Tables about ops, kernels, launches and copies of a run with GPU times.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace gpu_tables_test {

using Kind = GpuActivityKind;

bool IsUnknown(const Table& table, size_t row, const std::string& column) {
  return std::holds_alternative<std::monostate>(At(table, row, column));
}

// A cuDNN convolution with one kernel, launched three times; a plain launch; a product whose kernel launches no hook
// sees.
TraceModel GpuRun() {
  ModelBuilder builder;
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  const OpIndex runtime = builder.AddOp(LaunchDefinition("conv"));
  const OpIndex driver = builder.AddOp(LaunchDefinition("conv", 1, "cuLaunchKernel"));
  for (int i = 0; i < 3; ++i) {
    builder.Call(convolution, i * 1000, 500);
    builder.Call(runtime, i * 1000 + 100, 100);
    builder.Call(driver, i * 1000 + 110, 50);
  }
  builder.Call(builder.AddOp(LaunchDefinition("fill")), 4000, 80);
  builder.Call(builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 100, 10, 10, "")), 5000, 30);
  TraceModel model = builder.Build(10000);
  AddGpuWork({{.start_ns = 300, .duration_ns = 900, .asked_by_ns = 110, .kernel = "conv"},
              {.start_ns = 1300, .duration_ns = 100, .asked_by_ns = 1110, .kernel = "conv"},
              {.start_ns = 2400, .duration_ns = 300, .asked_by_ns = 2110, .kernel = "conv"},
              {.start_ns = 4200, .duration_ns = 40, .asked_by_ns = 4000, .kernel = "fill"},
              {.start_ns = 5100, .duration_ns = 20, .asked_by_ns = 5000, .kernel = "gemm"},
              {.start_ns = 5120, .duration_ns = 30, .asked_by_ns = 5000, .kernel = "splitk"},
              {.start_ns = 6000, .duration_ns = 10, .kernel = "stray"}},
             &model);
  return model;
}

TEST(GpuTablesTest, KernelsByTimeWithFirstLaunchesApart) {
  ModelBuilder builder;
  const OpIndex add = builder.AddOp(LaunchDefinition("add"));
  for (int i = 0; i < 3; ++i) builder.Call(add, i * 1000, 100);
  TraceModel model = builder.Build(10000);
  AddGpuWork({{.start_ns = 300, .duration_ns = 900, .asked_by_ns = 0, .kernel = "add"},
              {.start_ns = 1300, .duration_ns = 100, .asked_by_ns = 1000, .kernel = "add"},
              {.start_ns = 2400, .duration_ns = 300, .asked_by_ns = 2000, .kernel = "add"},
              {.start_ns = 4200, .duration_ns = 100, .kernel = "stray"}},
             &model);
  const Table table = RunPass("kernels", model);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "kernel"), "add");
  EXPECT_EQ(Text(table, 0, "launched_by"), "application");
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "gpu_time"), 1300);
  EXPECT_NEAR(Real(table, 0, "gpu_percent"), 100.0 * 1300 / 1400, 1e-9);
  EXPECT_EQ(Integer(table, 0, "first_time"), 900);
  EXPECT_EQ(Integer(table, 0, "mean_time"), 200);
  EXPECT_EQ(Integer(table, 0, "min_time"), 100);
  EXPECT_EQ(Integer(table, 0, "max_time"), 300);
  EXPECT_EQ(Integer(table, 0, "deviation"), 141);
  EXPECT_EQ(Text(table, 0, "grid"), "8x1x1");
  EXPECT_EQ(Text(table, 0, "block"), "256x1x1");
  EXPECT_EQ(Integer(table, 0, "registers"), 32);
  EXPECT_DOUBLE_EQ(Real(table, 0, "occupancy"), 100);
  EXPECT_EQ(Text(table, 1, "launched_by"), "not known");
  EXPECT_EQ(Integer(table, 1, "mean_time"), 100);  // there is no other
}

TEST(GpuTablesTest, KernelsByLayerAndByWhatTheyRanFor) {
  const Table table = RunPass("kernels", GpuRun());
  EXPECT_EQ(RowsWhere(table, {{"kernel", "conv"}, {"launched_by", "convolution forward"}}).size(), 3u);  // a layer each
  EXPECT_EQ(Text(table, 0, "layer"), "conv1");
  EXPECT_EQ(Integer(table, 0, "gpu_time"), 900);
  EXPECT_EQ(Text(table, RowWhere(table, {{"kernel", "fill"}}), "launched_by"), "application");
  EXPECT_EQ(Text(table, RowWhere(table, {{"kernel", "splitk"}}), "launched_by"), "gemm");
  EXPECT_EQ(Text(table, RowWhere(table, {{"kernel", "stray"}}), "launched_by"), "not known");
  EXPECT_EQ(Sum(table, "gpu_time"), 1400);
}

TEST(GpuTablesTest, KernelsWithoutTimesAreLaunches) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(LaunchDefinition("fill")), 0, 80);
  TraceModel model = builder.Build(1000);
  AddGpuWork({{.kind = Kind::kOp, .start_ns = 100, .duration_ns = 10, .asked_by_ns = 0}}, &model);
  EXPECT_EQ(Integer(RunPass("kernels", model), 0, "total_time"), 80);
}

TEST(GpuTablesTest, LaunchesOfWhichNoTimeIsKnownAreCounted) {
  ModelBuilder builder;
  const OpIndex fill = builder.AddOp(LaunchDefinition("fill"));
  for (int i = 0; i < 5; ++i) builder.Call(fill, i * 100, 10);
  TraceModel model = builder.Build(1000);
  AddGpuWork({{.start_ns = 20, .duration_ns = 10, .asked_by_ns = 0, .kernel = "fill"}}, &model);
  const Table table = RunPass("kernels", model);
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_EQ(table.notes[1], "4 launches were seen of which no time of a GPU is known.");
}

TEST(GpuTablesTest, LaunchesOnceByTheirOutermostView) {
  const Table table = RunPass("launches", GpuRun());
  const size_t row = RowWhere(table, {{"launched_by", "convolution forward"}});
  EXPECT_EQ(Integer(table, row, "launches"), 3);
  EXPECT_EQ(Integer(table, row, "first_launches"), 1);
  EXPECT_EQ(Integer(table, row, "first_host_time"), 100);
  EXPECT_EQ(Integer(table, row, "host_total"), 300);
  EXPECT_EQ(Integer(table, row, "gpu_total"), 1300);
  EXPECT_EQ(Integer(table, row, "wait_p95"), 295);  // of 200 and 300: from 1100 to 1300, from 2100 to 2400
  EXPECT_DOUBLE_EQ(Real(table, row, "launch_bound_percent"), 0);
  // Its kernels' launches were not seen: one launch for both.
  const size_t product = RowWhere(table, {{"launched_by", "gemm"}});
  EXPECT_EQ(Integer(table, product, "launches"), 1);
  EXPECT_EQ(Integer(table, product, "gpu_total"), 50);
}

TEST(GpuTablesTest, ShortKernelsAreLaunchBound) {
  ModelBuilder builder;
  const OpIndex fill = builder.AddOp(LaunchDefinition("fill"));
  for (int i = 0; i < 3; ++i) builder.Call(fill, i * 100, 50);
  TraceModel model = builder.Build(1000);
  AddGpuWork({{.start_ns = 10, .duration_ns = 5, .asked_by_ns = 0, .kernel = "fill"},
              {.start_ns = 95, .duration_ns = 5, .asked_by_ns = 100, .kernel = "fill"},  // clocks that differ slightly
              {.start_ns = 240, .duration_ns = 60, .asked_by_ns = 200, .kernel = "fill"}},
             &model);
  const Table table = RunPass("launches", model);
  EXPECT_DOUBLE_EQ(Real(table, 0, "launch_bound_percent"), 50);
  EXPECT_EQ(Integer(table, 0, "wait_p95"), 38);  // of 0 and 40
}

TEST(GpuTablesTest, OpsHaveTheTimeOfAllThatWasComputedForThem) {
  const Table ops = RunPass("ops", GpuRun());
  const size_t convolution = RowWhere(ops, {{"kind", "convolution"}});
  EXPECT_EQ(convolution, 0u);  // by GPU time
  EXPECT_EQ(Integer(ops, convolution, "gpu_time"), 1300);
  EXPECT_DOUBLE_EQ(Real(ops, convolution, "gpu_rate"), 3 * 7077888.0 / 1300);
  const Table gemm = RunPass("gemm", GpuRun());
  EXPECT_EQ(Integer(gemm, 0, "gpu_time"), 50);
  EXPECT_DOUBLE_EQ(Real(gemm, 0, "gpu_rate"), 2.0 * 100 * 10 * 10 / 50);
  const Table algorithms = RunPass("algorithms", GpuRun());
  EXPECT_EQ(Integer(algorithms, RowWhere(algorithms, {{"kind", "convolution"}}), "gpu_time"), 1300);
}

TEST(GpuTablesTest, CapturedProductsAreExecutedWithEveryLaunchOfTheirGraph) {
  ModelBuilder builder;
  trace::OpDefinition captured = CudaGemmDefinition("cublasSgemm_v2", 100, 10, 10, "");
  captured.set_captured(true);
  builder.Call(builder.AddOp(captured), 0, 30);
  const OpIndex replay = builder.AddOp(TimedDefinition("cudaGraphLaunch", "cuda_graph"));
  builder.Call(replay, 100, 30);
  builder.Call(replay, 200, 30);
  TraceModel model = builder.Build(1000);
  AddGpuWork(
      {{.start_ns = 150, .duration_ns = 40, .asked_by_ns = 100, .kernel = "gemm", .graph = 1, .captured_by_ns = 0},
       {.start_ns = 190, .duration_ns = 5, .asked_by_ns = 100, .kernel = "splitk", .graph = 1, .captured_by_ns = 0},
       {.start_ns = 250, .duration_ns = 55, .asked_by_ns = 200, .kernel = "gemm", .graph = 1, .captured_by_ns = 0}},
      &model);
  const Table table = RunPass("gemm", model);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 0);
  EXPECT_EQ(Integer(table, 0, "gpu_time"), 100);
  EXPECT_DOUBLE_EQ(Real(table, 0, "gpu_rate"), 2 * 20000.0 / 100);
  const Table kernels = RunPass("kernels", model);
  const size_t row = RowWhere(kernels, {{"kernel", "gemm"}});
  EXPECT_EQ(Text(kernels, row, "launched_by"), "gemm");
  EXPECT_EQ(Integer(kernels, row, "replayed"), 2);
  const Table launches = RunPass("launches", model);
  EXPECT_EQ(Integer(launches, RowWhere(launches, {{"launched_by", "[graph]"}}), "launches"), 2);
}

TEST(GpuTablesTest, CopiesByTheirOwnTime) {
  ModelBuilder builder;
  const OpIndex pinned = builder.AddOp(CopyDefinition(
      "cudaMemcpyAsync", "direction: HOST_TO_DEVICE bytes: 1000 asynchronous: true host_memory: PINNED"));
  builder.Call(pinned, 0, 10);
  builder.Call(pinned, 100, 10);
  builder.Call(builder.AddOp(CopyDefinition("cudaMemcpy", "bytes: 500")), 200, 90);  // cudaMemcpyDefault
  TraceModel model = builder.Build(10000);
  const auto copy = [](int64_t start_ns, int64_t duration_ns, int64_t asked_by_ns, uint64_t bytes,
                       CopyDirection direction, HostMemory memory) {
    return TestGpuWork{.kind = Kind::kCopy,
                       .start_ns = start_ns,
                       .duration_ns = duration_ns,
                       .asked_by_ns = asked_by_ns,
                       .bytes = bytes,
                       .direction = direction,
                       .host_memory = memory};
  };
  AddGpuWork({copy(1000, 25, 0, 1000, CopyDirection::kHostToDevice, HostMemory::kPinned),
              copy(2000, 100, 100, 1000, CopyDirection::kHostToDevice, HostMemory::kPinned),
              copy(3000, 50, 200, 500, CopyDirection::kDeviceToHost, HostMemory::kPageable),
              copy(4000, 10, -1, 64, CopyDirection::kPeer, HostMemory::kNone),
              {.start_ns = 2050, .duration_ns = 200, .kernel = "busy"}},
             &model);
  const Table table = RunPass("copies", model);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(Integer(table, 0, "calls"), 2);
  EXPECT_EQ(Integer(table, 0, "gpu_time"), 125);
  EXPECT_DOUBLE_EQ(Real(table, 0, "rate"), 16);
  EXPECT_DOUBLE_EQ(Real(table, 0, "min_rate"), 10);
  EXPECT_DOUBLE_EQ(Real(table, 0, "max_rate"), 40);
  EXPECT_DOUBLE_EQ(Real(table, 0, "peak_percent"), 100.0 * 16 / 50);
  EXPECT_DOUBLE_EQ(Real(table, 0, "overlap_percent"), 40);
  EXPECT_EQ(Text(table, 0, "rate_source"), "cupti");
  const size_t back = RowWhere(table, {{"direction", "DtoH"}, {"memory", "pageable"}, {"form", "sync"}});
  EXPECT_DOUBLE_EQ(Real(table, back, "rate"), 10);
  EXPECT_EQ(Integer(table, back, "calls"), 1);
  EXPECT_EQ(Integer(table, back, "total_time"), 90);
  EXPECT_EQ(Integer(table, back, "wall_share"), 90);
  const size_t peer = RowWhere(table, {{"direction", "peer"}, {"form", "not seen by a hook"}});
  EXPECT_TRUE(IsUnknown(table, peer, "calls"));
  EXPECT_EQ(Integer(table, peer, "bytes"), 64);
  EXPECT_EQ(Integer(table, peer, "up_to_4KiB"), 1);
  EXPECT_TRUE(IsUnknown(table, peer, "peak_percent"));
}

TEST(GpuTablesTest, CollectivesHaveTheBandwidthOfTheirBus) {
  ModelBuilder builder;
  const auto collective = [](const std::string& kind) {
    return Definition("function: 'nccl' family: 'nccl' collective { kind: " + kind +
                      " bytes: 1000 communicator: 1 ranks: 4 }");
  };
  builder.Call(builder.AddOp(collective("ALL_REDUCE")), 0, 10);
  builder.Call(builder.AddOp(collective("REDUCE_SCATTER")), 20, 10);
  builder.Call(builder.AddOp(collective("BROADCAST")), 40, 10);
  TraceModel model = builder.Build(1000);
  for (int64_t i = 0; i < 3; ++i)
    AddGpuWork({{.start_ns = 100 + i * 200, .duration_ns = 100, .asked_by_ns = i * 20}}, &model);
  const Table table = RunPass("collectives", model);
  const auto rate = [&](const std::string& kind, const std::string& column) {
    return Real(table, RowWhere(table, {{"kind", kind}}), column);
  };
  EXPECT_EQ(Integer(table, 0, "gpu_time"), 100);
  EXPECT_DOUBLE_EQ(rate("all reduce", "gpu_rate"), 10);
  EXPECT_DOUBLE_EQ(rate("all reduce", "bus_rate"), 15);
  EXPECT_DOUBLE_EQ(rate("reduce scatter", "bus_rate"), 30);  // counts one rank's part
  EXPECT_DOUBLE_EQ(rate("broadcast", "bus_rate"), 10);
}

TEST(GpuTablesTest, SummaryTellsHowBusyGpusAre) {
  const Table table = RunPass("summary", GpuRun());
  const size_t busy = RowWhere(table, {{"metric", "gpu_busy:0"}});
  EXPECT_EQ(Integer(table, busy, "value"), 1400);
  EXPECT_DOUBLE_EQ(Real(table, busy, "percent"), 14);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "gpu_activities"}}), "value"), 7);
  EXPECT_EQ(Integer(table, RowWhere(table, {{"metric", "gpu_kernel:conv"}}), "value"), 1300);
}

}  // namespace gpu_tables_test
}  // namespace dlhook::analyzer
