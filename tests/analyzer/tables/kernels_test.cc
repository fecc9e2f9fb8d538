// The table `kernels`.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr char kFill[] = "_Z4fillPfi";  // fill(float*, int)

TEST(KernelsTableTest, ByNameAndByLauncher) {
  ModelBuilder builder;
  const OpIndex convolution = builder.AddOp(LegacyDefinition(1));
  const OpIndex inside = builder.AddOp(LaunchDefinition("conv_kernel", 64));
  const OpIndex fill = builder.AddOp(LaunchDefinition(kFill, 4));
  const OpIndex larger_fill = builder.AddOp(LaunchDefinition(kFill, 8));
  for (int i = 0; i < 3; ++i) {
    builder.Call(convolution, i * 1000, 500);
    builder.Call(inside, i * 1000 + 100, 100);
    builder.Call(fill, i * 1000 + 600, 10);
    builder.Call(fill, i * 1000 + 700, 10);
    builder.Call(larger_fill, i * 1000 + 800, 20);
  }
  builder.Call(fill, 3000, 10, 0, 98);  // invalid device function
  const Table table = RunPass("kernels", builder.Build(5000));
  ASSERT_EQ(table.rows.size(), 2u);
  const size_t own = RowWhere(table, {{"kernel", "fill"}});
  EXPECT_EQ(Text(table, own, "launched_by"), "application");
  EXPECT_EQ(Text(table, own, "name"), "fill(float*, int)");
  EXPECT_EQ(Integer(table, own, "calls"), 9);
  EXPECT_EQ(Integer(table, own, "failed"), 1);
  EXPECT_EQ(Integer(table, own, "total_time"), 3 * 40 + 10);
  EXPECT_EQ(Integer(table, own, "mean_time"), 13);
  EXPECT_EQ(Integer(table, own, "grids"), 2);
  EXPECT_EQ(Text(table, own, "grid"), "4x1x1");
  EXPECT_EQ(Text(table, own, "block"), "128x1x1");
  EXPECT_NEAR(Real(table, own, "launch_percent"), 100.0 * 130 / 430, 1e-9);
  const size_t library = RowWhere(table, {{"kernel", "conv_kernel"}});
  EXPECT_EQ(Text(table, library, "launched_by"), "convolution forward");
  EXPECT_EQ(Integer(table, library, "calls"), 3);
}

TEST(KernelsTableTest, TheDriversLaunchInsideTheRuntimesCountsOnce) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(LaunchDefinition(kFill)), 0, 100);
  builder.Call(builder.AddOp(LaunchDefinition(kFill, 1, "cuLaunchKernel")), 10, 50);
  const Table table = RunPass("kernels", builder.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 1);
  EXPECT_EQ(Integer(table, 0, "total_time"), 100);
  EXPECT_EQ(Text(table, 0, "launched_by"), "application");
}

TEST(KernelsTableTest, CapturedLaunchesAndGraphs) {
  ModelBuilder builder;
  trace::OpDefinition captured = LaunchDefinition(kFill);
  captured.set_captured(true);
  builder.Call(builder.AddOp(captured), 0, 100);
  builder.Call(builder.AddOp(captured), 200, 100);
  const OpIndex replay = builder.AddOp(TimedDefinition("cudaGraphLaunch", "cuda_graph"));
  for (int i = 0; i < 4; ++i) builder.Call(replay, 1000 + i * 100, 50);
  const Table table = RunPass("kernels", builder.Build());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 0);
  EXPECT_EQ(Integer(table, 0, "captured"), 2);
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_EQ(table.notes[1], "4 launches of CUDA graphs repeat captured launches; they are not in `calls`.");
}

TEST(KernelsTableTest, PerSteadyStep) {
  ModelBuilder builder;
  const OpIndex set_up = builder.AddOp(LaunchDefinition("set_up"));
  const OpIndex fill = builder.AddOp(LaunchDefinition(kFill));
  const OpIndex product = builder.AddOp(CudaGemmDefinition("cublasSgemm_v2", 8, 8, 8, ""));
  for (int i = 0; i < 3; ++i) builder.Call(set_up, i * 10, 5);
  for (int i = 0; i < 10; ++i) {
    builder.Call(product, 1000 + i * 100, 20);
    builder.Call(fill, 1030 + i * 100, 5);
    builder.Call(fill, 1040 + i * 100, 5);
  }
  const Table table = RunPass("kernels", builder.Build());
  EXPECT_DOUBLE_EQ(Real(table, RowWhere(table, {{"kernel", "fill"}}), "per_step"), 2.0);
  EXPECT_DOUBLE_EQ(Real(table, RowWhere(table, {{"kernel", "set_up"}}), "per_step"), 0.0);
}

TEST(KernelsTableTest, EmptyWithoutLaunches) {
  const Table table = RunPass("kernels", ModelBuilder().Build());
  EXPECT_TRUE(table.rows.empty());
  EXPECT_TRUE(table.notes.empty());
}

}  // namespace
}  // namespace dlhook::analyzer
