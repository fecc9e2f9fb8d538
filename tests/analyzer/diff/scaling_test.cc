// The table of `dlhook scaling`.
#include "analyzer/diff/scaling.h"

#include <gtest/gtest.h>

#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

ScalingRun RunOf(const std::string& name, int64_t devices, double step_ns, int64_t batch) {
  ScalingRun run;
  run.name = name;
  run.devices = run.processes = devices;
  run.steps = 10 * devices;
  run.step_ns = step_ns;
  run.batch = batch;
  return run;
}

ScalingRun WithTimes(ScalingRun run, double compute_ns, double exposed_ns, double copy_ns) {
  run.has_gpu_times = true;
  run.compute_ns = compute_ns;
  run.communication_ns = 2 * exposed_ns;
  run.exposed_communication_ns = exposed_ns;
  run.exposed_copy_ns = copy_ns;
  run.idle_ns = run.step_ns - compute_ns - exposed_ns - copy_ns;
  return run;
}

bool IsUnknown(const Table& table, size_t row, const std::string& column) {
  return std::holds_alternative<std::monostate>(At(table, row, column));
}

TEST(ScalingTableTest, StrongScaling) {
  const Table table = ScalingTable(
      {WithTimes(RunOf("four", 4, 40e6, 64), 25e6, 10e6, 1e6), WithTimes(RunOf("one", 1, 100e6, 64), 96e6, 0, 4e6)},
      ScalingKind::kByBatch);
  CheckShape(table);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Text(table, 0, "run"), "one");
  EXPECT_DOUBLE_EQ(Real(table, 0, "efficiency"), 100.0);
  EXPECT_EQ(Integer(table, 0, "lost"), 0);
  EXPECT_TRUE(IsUnknown(table, 0, "grew"));
  EXPECT_DOUBLE_EQ(Real(table, 1, "speed_up"), 2.5);
  EXPECT_DOUBLE_EQ(Real(table, 1, "efficiency"), 62.5);
  EXPECT_DOUBLE_EQ(Real(table, 1, "samples_per_second"), 1600.0);
  EXPECT_DOUBLE_EQ(Real(table, 1, "communication"), 50.0);
  EXPECT_EQ(Integer(table, 1, "lost"), 15'000'000);
  EXPECT_EQ(Text(table, 1, "grew"), "exposed communication +10.0 ms, idle +4.00 ms, compute +1.00 ms");
  EXPECT_EQ(table.notes[0], "Strong scaling: the same batch in every run.");
}

TEST(ScalingTableTest, WeakScaling) {
  const Table table = ScalingTable({RunOf("one", 1, 100e6, 64), RunOf("two", 2, 125e6, 128)}, ScalingKind::kByBatch);
  EXPECT_DOUBLE_EQ(Real(table, 1, "speed_up"), 1.6);
  EXPECT_DOUBLE_EQ(Real(table, 1, "efficiency"), 80.0);
  EXPECT_EQ(Integer(table, 1, "lost"), 25'000'000);
  EXPECT_TRUE(IsUnknown(table, 1, "grew"));
  EXPECT_TRUE(IsUnknown(table, 1, "communication"));
  EXPECT_EQ(table.notes[0], "Weak scaling: the same batch for each device in every run.");
}

TEST(ScalingTableTest, BatchesOfAnySizeCompareByWork) {
  const Table table = ScalingTable({RunOf("one", 1, 100e6, 64), RunOf("two", 2, 100e6, 96)}, ScalingKind::kByBatch);
  EXPECT_DOUBLE_EQ(Real(table, 1, "speed_up"), 1.5);
  EXPECT_DOUBLE_EQ(Real(table, 1, "efficiency"), 75.0);
}

TEST(ScalingTableTest, WithoutBatchesTheUserSaysWhich) {
  const std::vector<ScalingRun> runs = {RunOf("one", 1, 100e6, 0), RunOf("two", 2, 80e6, 0)};
  const Table unknown = ScalingTable(runs, ScalingKind::kByBatch);
  EXPECT_TRUE(IsUnknown(unknown, 1, "speed_up"));
  EXPECT_NE(unknown.notes[0].find("--kind strong"), std::string::npos);
  EXPECT_DOUBLE_EQ(Real(ScalingTable(runs, ScalingKind::kStrong), 1, "speed_up"), 1.25);
  EXPECT_DOUBLE_EQ(Real(ScalingTable(runs, ScalingKind::kWeak), 1, "speed_up"), 2.5);
}

// Two processes with a GPU each: the parts of a step are means over devices and add up to it.
TEST(MeasureScalingTest, StepsAndWorkOfRanks) {
  ModelBuilder builder;
  builder.AddThread(builder.AddProcess());
  std::vector<StepTrack> tracks(2);
  GpuActivityColumns& gpu = builder.model().gpu;
  for (uint32_t process = 0; process < 2; ++process) {
    builder.model().gpu_devices.push_back({.process = process, .uuid = process == 0 ? "GPU-a" : "GPU-b"});
    tracks[process].process = process;
    for (int64_t start_ns : {0, 100, 200, 300}) {
      Step step = {.start_ns = start_ns, .end_ns = start_ns + 100, .kind = StepKind::kTraining};
      step.is_warm_up = start_ns == 0;
      step.batch = 8;
      step.micro_steps = 2;
      step.samples = 16;
      tracks[process].steps.push_back(step);
      const int64_t end_ns = start_ns + (process == 0 ? 50 : 70);
      gpu.start_ns.push_back(start_ns + 10);
      gpu.end_ns.push_back(end_ns);
      gpu.kind.push_back(GpuActivityKind::kKernel);
      gpu.source.push_back(GpuTimeSource::kCupti);
      gpu.device.push_back(process);
      gpu.kernel.push_back(kNone);
      gpu.bytes.push_back(0);
      gpu.call.push_back(kNone);
      gpu.launch_call.push_back(kNone);
    }
  }
  // What repeats in the set-up takes longer, but is not the run's main work.
  tracks.emplace_back();
  tracks.back().steps = {{.start_ns = 300, .end_ns = 900}, {.start_ns = 900, .end_ns = 1500}};
  const auto run = MeasureScaling(builder.Build(1500), Judged(tracks));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->kind, StepKind::kTraining);
  EXPECT_EQ(run->processes, 2);
  EXPECT_EQ(run->devices, 2);
  EXPECT_EQ(run->steps, 4);
  EXPECT_EQ(run->batch, 32);
  EXPECT_DOUBLE_EQ(run->step_ns, 100);
  EXPECT_DOUBLE_EQ(run->compute_ns, 50);
  EXPECT_DOUBLE_EQ(run->idle_ns, 50);
  EXPECT_EQ(MeasureScaling(builder.Build(1500), {}).status().message(), "no steady steps were found in it");
}

}  // namespace
}  // namespace dlhook::analyzer
