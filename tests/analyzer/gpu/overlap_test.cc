// Tables `overlap`, `overlap_over_time` and `guided`: hand-counted numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace {

using ::testing::HasSubstr;

constexpr auto kToDevice = CopyDirection::kHostToDevice;
constexpr auto kFromDevice = CopyDirection::kDeviceToHost;

// Two equal steady steps of 1000 ns, after one with another kind of work.
//   kernels [0,300) [200,400), copies to [250,500) from [450,600), collective [350,450)
void AddSteps(GpuProgram& program, GpuDeviceIndex device = 0) {
  program.Steps({1000, 2000, 3000, 3500});
  for (int64_t at_ns = 1000; at_ns < 3000; at_ns += 1000) {
    program.Work({.start_ns = at_ns, .end_ns = at_ns + 300, .blocks = 4, .device = device});
    program.Work({.start_ns = at_ns + 200, .end_ns = at_ns + 400, .kernel = "conv", .device = device});
    program.Copy(kToDevice, at_ns + 250, at_ns + 500, 100);    // 0.4 bytes/ns of 1
    program.Copy(kFromDevice, at_ns + 450, at_ns + 600, 150);  // 1
    program.Work({.start_ns = at_ns + 350, .end_ns = at_ns + 450, .kernel = "ncclDevKernel", .device = device});
  }
  program.Copy(kToDevice, 100, 200);
  program.Work({.start_ns = 150, .end_ns = 250, .kernel = "conv"});
  program.Work({.start_ns = 800, .end_ns = 810, .kind = GpuActivityKind::kSet, .direction = CopyDirection::kSet});
}

void ExpectPair(const Table& table, const std::string& work, const std::string& beside, int64_t time_ns,
                double percent) {
  const size_t row = RowWhere(table, {{"device", "0"}, {"work", work}, {"beside", beside}});
  EXPECT_EQ(Integer(table, row, "time"), time_ns) << work << " beside " << beside;
  EXPECT_EQ(Integer(table, row, "steady_time"), 2 * time_ns);
  EXPECT_NEAR(Real(table, row, "percent"), percent, 1e-9);
}

TEST(OverlapTableTest, EachMomentCountsOnce) {
  GpuProgram program;
  AddSteps(program);
  program.Build(4000);
  const Table table = program.Run("overlap");
  EXPECT_EQ(table.rows.size(), 6u);
  ExpectPair(table, "copies", "compute", 150, 100.0 * 150 / 350);
  ExpectPair(table, "communication", "compute", 50, 50);
  ExpectPair(table, "communication", "copies", 100, 100);
  ExpectPair(table, "compute", "compute", 100, 25);
  ExpectPair(table, "copies", "copies", 50, 100.0 * 50 / 350);
  ExpectPair(table, "copies HtoD", "copies DtoH", 50, 100.0 * 50 / 150);
  const size_t row = RowWhere(table, {{"work", "copies"}, {"beside", "compute"}});
  EXPECT_EQ(Integer(table, row, "work_time"), 350);
  EXPECT_EQ(Integer(table, row, "beside_time"), 400);
  EXPECT_NEAR(Real(table, row, "beside_percent"), 37.5, 1e-9);
  EXPECT_EQ(Integer(table, row, "run_time"), 300 + 50);
  EXPECT_EQ(Integer(table, row, "run_work_time"), 700 + 100);
  EXPECT_NEAR(Real(table, row, "run_percent"), 100.0 * 350 / 800, 1e-9);
}

TEST(OverlapTableTest, AllDevicesTogether) {
  GpuProgram program;
  AddSteps(program);
  program.AddDevice();
  program.Work({.start_ns = 1000, .end_ns = 1600, .device = 1});
  program.Work({.start_ns = 1500, .end_ns = 1700, .device = 1});
  program.Build(4000);
  const Table table = program.Run("overlap");
  const size_t row = RowWhere(table, {{"device", "all"}, {"work", "compute"}});
  EXPECT_EQ(Integer(table, row, "steady_time"), 2 * 100 + 100);
  EXPECT_EQ(Integer(table, row, "time"), 150) << "two steps of one process";
  EXPECT_EQ(Integer(table, RowWhere(table, {{"device", "1"}}), "time"), 50);
}

TEST(OverlapOverTimeTest, ByStepAndByInterval) {
  GpuProgram program;
  AddSteps(program);
  program.Build(4000);
  const Table table = program.Run("overlap_over_time");
  ASSERT_EQ(table.rows.size(), 4u);
  for (size_t row : {0u, 1u}) {
    EXPECT_EQ(Integer(table, row, "index"), static_cast<int64_t>(row));
    EXPECT_EQ(Integer(table, row, "compute"), 400);
    EXPECT_EQ(Integer(table, row, "copies_beside_compute"), 150);
    EXPECT_EQ(Integer(table, row, "communication_beside_compute"), 50);
    EXPECT_EQ(Integer(table, row, "concurrent_kernels"), 100);
    EXPECT_EQ(Integer(table, row, "idle"), 400);
    EXPECT_DOUBLE_EQ(Real(table, row, "compute_percent"), 40);
  }
  EXPECT_EQ(Text(table, 3, "kind"), "[outside of steps]");
  EXPECT_EQ(Integer(table, 3, "copies_beside_compute"), 50);
  EXPECT_EQ(Sum(table, "measured"), 4000);
  EXPECT_EQ(Sum(table, "idle"), 2 * 400 + 2000 - 150 - 10);
  const Table intervals = program.Run("overlap_over_time", 500);
  ASSERT_EQ(intervals.rows.size(), 8u);
  EXPECT_EQ(Integer(intervals, 2, "start"), 1000);
  EXPECT_EQ(Integer(intervals, 2, "copies"), 250);
  EXPECT_EQ(Integer(intervals, 3, "copies"), 100);
  for (const char* column : {"compute", "copies", "idle", "measured"})
    EXPECT_EQ(Sum(intervals, column), Sum(table, column)) << column;
}

void ExpectMetric(const Table& table, const std::string& metric, double value, const std::string& verdict,
                  int64_t time_ns, int64_t of_ns, int64_t at_stake_ns) {
  const size_t row = RowWhere(table, {{"metric", metric}});
  EXPECT_NEAR(Real(table, row, "value"), value, 1e-9) << metric;
  EXPECT_EQ(Text(table, row, "verdict"), verdict) << metric;
  EXPECT_EQ(Integer(table, row, "time"), time_ns) << metric;
  EXPECT_EQ(Integer(table, row, "of"), of_ns) << metric;
  EXPECT_EQ(Integer(table, row, "at_stake"), at_stake_ns) << metric;
}

TEST(GuidedTableTest, SteadyStepsAlone) {
  GpuProgram program;
  AddSteps(program);
  program.Build(4000);
  const Table table = program.Run("guided");
  ExpectMetric(table, "compute/memcpy efficiency", 400.0 / 350, "ok", 400, 350, 200);
  ExpectMetric(table, "memcpy/compute overlap", 100.0 * 150 / 350, "low", 150, 350, 200);
  ExpectMetric(table, "memcpy throughput", 400, "low", 250, 400, 150);
  ExpectMetric(table, "memcpy overlap", 100.0 / 3, "low", 50, 150, 100);
  ExpectMetric(table, "compute utilization", 40, "low", 400, 1000, 600);
  ExpectMetric(table, "kernel concurrency", 25, "low", 100, 400, 200);  // of the small kernel's 300, 200 without others
  EXPECT_THAT(Text(table, RowWhere(table, {{"metric", "memcpy throughput"}}), "threshold"),
              HasSubstr("1000 MB/s, the link's peak"));
  const size_t first = RowWhere(table, {{"verdict", "rank 1"}}), second = RowWhere(table, {{"verdict", "rank 2"}});
  EXPECT_EQ(Text(table, first, "what"), "gemm");
  EXPECT_DOUBLE_EQ(Real(table, first, "value"), 60);
  EXPECT_EQ(Text(table, second, "what"), "conv");
  EXPECT_EQ(Integer(table, second, "time"), 200);
}

TEST(GuidedTableTest, GoodProgramsAndThoseWithoutCopies) {
  GpuProgram program;
  program.Work({.start_ns = 0, .end_ns = 990});
  program.Copy(kToDevice, 0, 100, 100);
  program.builder().model().gpu_devices[0].link_bytes_per_second = 0;
  program.Build(1000);
  const Table table = program.Run("guided");
  ExpectMetric(table, "memcpy/compute overlap", 100, "ok", 100, 100, 0);
  ExpectMetric(table, "memcpy throughput", 1000, "ok", 100, 100, 0);
  ExpectMetric(table, "compute utilization", 99, "ok", 990, 1000, 10);
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "memcpy overlap"}}), "verdict"), "none");
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "kernel concurrency"}}), "verdict"), "ok")
      << "its kernel fills the device";
  EXPECT_THAT(Text(table, RowWhere(table, {{"metric", "memcpy throughput"}}), "threshold"),
              HasSubstr("peak is not known"));
}

// A few slow bytes are not worth a verdict.
TEST(GuidedTableTest, WhatIsLowButSmallIsNegligible) {
  GpuProgram program;
  program.Work({.start_ns = 0, .end_ns = 9900});
  program.Copy(kToDevice, 9900, 9950, 1);
  program.Build(10000);
  const Table table = program.Run("guided");
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "memcpy/compute overlap"}}), "verdict"), "negligible");
  EXPECT_EQ(Text(table, RowWhere(table, {{"metric", "memcpy throughput"}}), "verdict"), "negligible");
}

TEST(GuidedTableTest, SaysWhatIsNotExact) {
  GpuProgram program;
  program.Work({.start_ns = 0, .end_ns = 100});
  Loss loss;
  loss.reason = LossReason::kGpuBuffersFull;
  loss.calls = 7;
  program.builder().model().processes[0].losses.push_back(loss);
  program.Build(1000);
  const Table table = program.Run("guided");
  EXPECT_THAT(table.notes, ::testing::Contains(HasSubstr("7 activities of GPUs were lost")));
  EXPECT_THAT(table.notes, ::testing::Contains(HasSubstr("no steady steps were found")));
}

}  // namespace
}  // namespace dlhook::analyzer
