// The table `copies`.
#include <gtest/gtest.h>

#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

trace::OpDefinition SyncCopy(const std::string& direction, int64_t bytes) {
  return CopyDefinition("cudaMemcpy",
                        "direction: " + direction + " bytes: " + std::to_string(bytes) + " host_memory: PAGEABLE");
}

TEST(CopiesTableTest, RatesOfSynchronousCopies) {
  ModelBuilder builder;
  const OpIndex large = builder.AddOp(SyncCopy("HOST_TO_DEVICE", 8000));
  const OpIndex small = builder.AddOp(SyncCopy("HOST_TO_DEVICE", 1000));
  builder.Call(large, 0, 1000);     // 8 GB/s
  builder.Call(large, 2000, 2000);  // 4 GB/s
  builder.Call(small, 5000, 500);   // 2 GB/s
  builder.Call(builder.AddOp(SyncCopy("DEVICE_TO_HOST", 3000)), 6000, 1500);
  const Table table = RunPass("copies", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "direction"), "HtoD");
  EXPECT_EQ(Text(table, 0, "memory"), "pageable");
  EXPECT_EQ(Text(table, 0, "form"), "sync");
  EXPECT_EQ(Integer(table, 0, "calls"), 3);
  EXPECT_EQ(Integer(table, 0, "bytes"), 17000);
  EXPECT_DOUBLE_EQ(Real(table, 0, "bytes_percent"), 85.0);
  EXPECT_EQ(Integer(table, 0, "total_time"), 3500);
  EXPECT_DOUBLE_EQ(Real(table, 0, "rate"), 17000.0 / 3500);
  EXPECT_DOUBLE_EQ(Real(table, 0, "min_rate"), 2.0);
  EXPECT_DOUBLE_EQ(Real(table, 0, "max_rate"), 8.0);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 3500);
  EXPECT_EQ(Text(table, 1, "direction"), "DtoH");
  EXPECT_DOUBLE_EQ(Real(table, 1, "rate"), 2.0);
}

TEST(CopiesTableTest, TheTimeOfOthersIsNotKnown) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(CopyDefinition("cudaMemcpyAsync",
                                            "direction: HOST_TO_DEVICE bytes: 100 asynchronous: true "
                                            "host_memory: PINNED")),
               0, 10);
  builder.Call(builder.AddOp(CopyDefinition("cudaMemcpy", "direction: DEVICE_TO_DEVICE bytes: 90")), 20, 10);
  builder.Call(builder.AddOp(CopyDefinition("cudaMemset", "direction: SET bytes: 80")), 40, 10);
  const Table table = RunPass("copies", builder.Build(100));
  ASSERT_EQ(table.rows.size(), 3u);
  for (size_t row = 0; row < 3; ++row) {
    for (const char* column : {"rate", "min_rate", "max_rate"}) {
      EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, row, column))) << row << column;
    }
  }
  const size_t pinned = RowWhere(table, {{"memory", "pinned"}, {"form", "async"}});
  EXPECT_NEAR(Real(table, pinned, "bytes_percent"), 100.0 * 100 / 190, 1e-9);
  EXPECT_EQ(Integer(table, pinned, "total_time"), 10);
  const size_t set = RowWhere(table, {{"direction", "set"}, {"memory", "none"}});
  EXPECT_EQ(Integer(table, set, "bytes"), 80);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, set, "bytes_percent")));
}

TEST(CopiesTableTest, TheDriversCopyInsideTheRuntimesCountsOnce) {
  ModelBuilder builder;
  const OpIndex runtime = builder.AddOp(SyncCopy("HOST_TO_DEVICE", 4096));
  const OpIndex driver =
      builder.AddOp(CopyDefinition("cuMemcpyHtoD_v2", "direction: HOST_TO_DEVICE bytes: 4096 host_memory: PAGEABLE"));
  for (int i = 0; i < 5; ++i) {
    builder.Call(runtime, i * 1000, 500);
    builder.Call(driver, i * 1000 + 50, 400);
  }
  builder.Call(driver, 8000, 100);  // on its own
  const Table table = RunPass("copies", builder.Build(10000));
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(Integer(table, 0, "calls"), 6);
  EXPECT_EQ(Integer(table, 0, "bytes"), 6 * 4096);
  EXPECT_EQ(Integer(table, 0, "total_time"), 5 * 500 + 100);
  EXPECT_EQ(Integer(table, 0, "wall_share"), 5 * 500 + 100);
  EXPECT_EQ(Text(table, 0, "functions"), "cuMemcpyHtoD_v2, cudaMemcpy");
}

TEST(CopiesTableTest, SizesAreCountedAtTheirLimits) {
  ModelBuilder builder;
  int64_t at = 0;
  for (int64_t bytes : {int64_t{1}, int64_t{4096}, int64_t{4097}, int64_t{65536}, int64_t{1 << 20}, int64_t{16 << 20},
                        int64_t{(16 << 20) + 1}}) {
    builder.Call(builder.AddOp(SyncCopy("DEVICE_TO_HOST", bytes)), at += 100, 50);
  }
  const Table table = RunPass("copies", builder.Build());
  EXPECT_EQ(Integer(table, 0, "up_to_4KiB"), 2);
  EXPECT_EQ(Integer(table, 0, "up_to_64KiB"), 2);
  EXPECT_EQ(Integer(table, 0, "up_to_1MiB"), 1);
  EXPECT_EQ(Integer(table, 0, "up_to_16MiB"), 1);
  EXPECT_EQ(Integer(table, 0, "larger"), 1);
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_EQ(table.notes[0],
            "DtoH by size: 2 up to 4 KiB, 2 up to 64 KiB, 1 up to 1 MiB, 1 up to 16 MiB, 1 "
            "larger.");
}

TEST(CopiesTableTest, CapturedAndFailedOnesCopyNothing) {
  ModelBuilder builder;
  const OpIndex copy = builder.AddOp(SyncCopy("HOST_TO_DEVICE", 1000));
  trace::OpDefinition captured = SyncCopy("HOST_TO_DEVICE", 5000);
  captured.set_captured(true);
  builder.Call(copy, 0, 100);
  builder.Call(copy, 200, 7, 0, 700);
  builder.Call(builder.AddOp(captured), 400, 100);
  const Table table = RunPass("copies", builder.Build(1000));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "form"), "sync");
  EXPECT_EQ(Integer(table, 0, "calls"), 1);
  EXPECT_EQ(Integer(table, 0, "failed"), 1);
  EXPECT_EQ(Integer(table, 0, "bytes"), 1000);
  EXPECT_DOUBLE_EQ(Real(table, 0, "bytes_percent"), 100.0);
  EXPECT_DOUBLE_EQ(Real(table, 0, "min_rate"), 10.0);
  EXPECT_EQ(Text(table, 1, "form"), "captured");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(table, 1, "rate")));
}

TEST(CopiesTableTest, BatchesAndTotalsAreCounted) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(CopyDefinition("cudaMemcpyBatchAsync",
                                            "direction: HOST_TO_DEVICE bytes: 3000 copies: 3 "
                                            "asynchronous: true host_memory: PINNED")),
               0, 10);
  const OpIndex copy = builder.AddOp(SyncCopy("DEVICE_TO_HOST", 200));
  builder.model().aggregates.push_back({.op = copy,
                                        .thread = 0,
                                        .window_start_ns = 100,
                                        .window_end_ns = 900,
                                        .count = 4,
                                        .sum_ns = 500,
                                        .min_ns = 50,
                                        .max_ns = 200,
                                        .nested_count = 0,
                                        .nested_sum_ns = 0});
  const Table table = RunPass("copies", builder.Build(1000));
  EXPECT_EQ(Integer(table, RowWhere(table, {{"direction", "HtoD"}}), "copies"), 3);
  const size_t row = RowWhere(table, {{"direction", "DtoH"}});
  EXPECT_EQ(Integer(table, row, "calls"), 4);
  EXPECT_EQ(Integer(table, row, "bytes"), 800);
  EXPECT_DOUBLE_EQ(Real(table, row, "rate"), 800.0 / 500);
  EXPECT_DOUBLE_EQ(Real(table, row, "min_rate"), 1.0);
  EXPECT_DOUBLE_EQ(Real(table, row, "max_rate"), 4.0);
}

}  // namespace
}  // namespace dlhook::analyzer
