// Rule denormals: one op gets slower during a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"

namespace dlhook::analyzer {
namespace denormals_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kSteps = 30;
constexpr int64_t kStepNs = 1'000'000;

struct Spec {
  int64_t late_ns = 420'000;        // of a product that takes 200 us in the first half
  int64_t other_late_ns = 200'000;  // of another one that takes 200 us
  bool other_shape = false;         // the late ones are of another shape
  bool some_are_fast = false;       // each fifth of the late ones
  int64_t faults_ns = 0;            // in every second step, of a third that else takes 20, late 36 us
};

std::vector<std::string> Found(const Spec& spec) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex early = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  const OpIndex late = spec.other_shape ? builder.AddOp(GemmDefinition(96, 96, 96, "NN")) : early;
  const OpIndex other = builder.AddOp(GemmDefinition(128, 128, 128, "NN"));
  const OpIndex small = builder.AddOp(GemmDefinition(32, 32, 32, "NN"));
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < kSteps; ++step) {
    const bool is_late = step >= kSteps / 2;
    const bool is_slow = is_late && !(spec.some_are_fast && step % 5 == 0);
    builder.Call(is_late ? late : early, step * kStepNs + 1000, is_slow ? spec.late_ns : 200'000);
    builder.Call(other, step * kStepNs + 600'000, is_late ? spec.other_late_ns : 200'000);
    if (spec.faults_ns > 0) {
      builder.Call(small, step * kStepNs + 810'000, (step % 2 == 0 ? spec.faults_ns : 0) + (is_late ? 36'000 : 20'000));
    }
    starts.push_back(starts.back() + kStepNs);
  }
  program.Steps(starts);
  program.Build(kSteps * kStepNs);
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "denormals"}, {"numerics", "changes"}})) {
    EXPECT_NEAR(Integer(table, row, "gain"), (spec.late_ns - spec.other_late_ns) / 2, 6000);  // of half of the steps
    found.push_back(Text(table, row, "finding"));
  }
  return found;
}

TEST(Denormals, SlowOneOperationDown) {
  EXPECT_THAT(Found({}), ElementsAre(HasSubstr("gemm takes 2.1 times as long")));
}
TEST(Denormals, SlowItDownTwice) { EXPECT_THAT(Found({.late_ns = 390'000}), IsEmpty()); }
TEST(Denormals, AreNoSlowerMachine) { EXPECT_THAT(Found({.other_late_ns = 340'000}), IsEmpty()); }
TEST(Denormals, OnASlowerMachine) {
  EXPECT_THAT(
      Found({.late_ns = 580'000, .other_late_ns = 280'000}),
      ElementsAre(HasSubstr("gemm takes 2.9 times as long in the last third of the steps as in the first, with the "
                            "same shapes, and the other operations 1.4 times")));
}
TEST(Denormals, BesideASmallOperationWithPageFaults) { EXPECT_THAT(Found({.faults_ns = 150'000}), testing::SizeIs(1)); }
TEST(Denormals, AreSlowEachTime) { EXPECT_THAT(Found({.some_are_fast = true}), IsEmpty()); }
TEST(Denormals, AreNoOtherShape) { EXPECT_THAT(Found({.other_shape = true}), IsEmpty()); }

TEST(Denormals, NameNoLayerThatGotSlowerByTheWay) {
  for (const int64_t late_ns : {25'000, 225'000}) {  // in a layer, beside an operation without one that brings 420'000
    GpuProgram program;
    ModelBuilder& builder = program.builder();
    const OpIndex outside = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
    const OpIndex inside = builder.AddOp(GemmDefinition(32, 32, 32, "NN"));
    const OpIndex same = builder.AddOp(GemmDefinition(128, 128, 128, "NN"));
    program.LayerOf(inside, {.name = "fc", .line = "train.py:7"});
    std::vector<int64_t> starts = {0};
    for (int step = 0; step < kSteps; ++step) {
      const int64_t at_ns = step * kStepNs;
      const bool is_late = step >= kSteps / 2;
      builder.Call(outside, at_ns + 1000, is_late ? 520'000 : 100'000);
      builder.Call(inside, at_ns + 600'000, is_late ? late_ns : 10'000);
      builder.Call(same, at_ns + 900'000, 90'000);
      starts.push_back(at_ns + kStepNs);
    }
    program.Steps(starts);
    program.Build(kSteps * kStepNs);
    const Table table = program.Make(ReportTables().front());
    const std::vector<size_t> rows = RowsWhere(table, {{"rule", "denormals"}});
    ASSERT_THAT(rows, testing::SizeIs(1));
    const bool is_named = late_ns > 100'000;
    EXPECT_EQ(Text(table, rows[0], "where"), is_named ? "fc" : "-");
    EXPECT_EQ(Text(table, rows[0], "line"), is_named ? "train.py:7" : "-");
  }
}

// An op of the framework, beside a product of which the late ones may be of another shape.
std::vector<size_t> FoundOfFramework(bool other_shape, int steps = kSteps) {
  GpuProgram program;
  ModelBuilder& builder = program.builder();
  const OpIndex early = builder.AddOp(GemmDefinition(64, 64, 64, "NN"));
  const OpIndex late = other_shape ? builder.AddOp(GemmDefinition(96, 96, 96, "NN")) : early;
  const OpIndex same = builder.AddOp(GemmDefinition(128, 128, 128, "NN"));
  std::vector<int64_t> starts = {0};
  for (int step = 0; step < steps; ++step) {
    const int64_t at_ns = step * kStepNs;
    const bool is_late = step >= steps / 2;
    builder.Call(is_late ? late : early, at_ns + 1000, 10'000);
    builder.Call(same, at_ns + 20'000, 200'000);
    program.Scope("aten::sqrt", at_ns + 300'000, at_ns + (is_late ? 720'000 : 500'000));
    starts.push_back(at_ns + kStepNs);
  }
  program.Steps(starts);
  program.Build(steps * kStepNs);
  return RowsWhere(program.Make(ReportTables().front()), {{"rule", "denormals"}});
}

TEST(Denormals, OfTheFrameworkNeedEqualShapes) {
  EXPECT_THAT(FoundOfFramework(false), testing::SizeIs(1));
  EXPECT_THAT(FoundOfFramework(true), IsEmpty());
}

TEST(Denormals, OfALongRunAreFoundInEverySecondStep) {
  EXPECT_THAT(FoundOfFramework(false, 3 * 4097 + 2), testing::SizeIs(1));
  EXPECT_THAT(FoundOfFramework(true, 3 * 4097 + 2), IsEmpty());
}

}  // namespace denormals_test
}  // namespace dlhook::analyzer
