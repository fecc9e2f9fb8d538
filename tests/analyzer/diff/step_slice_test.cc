// Runs cut to some of their steps: tables of the parts add up to the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/measured_run.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/tables.h"
#include "analyzer/work/step_work.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace {

Table Work(const StepSlice& slice) {
  const TableOptions options = {.choices = &slice.choices(), .totals = &slice.totals(), .analysis = &slice.analysis()};
  absl::StatusOr<Table> table = WorkTable(slice.model(), options);
  EXPECT_TRUE(table.ok());
  CheckShape(*table);
  return *table;
}

TEST(StepSliceTest, BlocksAddUpToTheStepsExactly) {
  RunSpec spec;
  spec.layers = Layers(3);
  spec.layers[1].reorders = 2;
  spec.steps = 50;
  const TrainingRun run(spec);
  const TraceModel& model = *run.analyzed().model;
  const ComparedSteps steps = ChooseSteps(run.analysis().steps(), StepKind::kTraining);
  ASSERT_EQ(steps.count(), 49) << "without the last, which nothing ends";
  const Table whole = Work(StepSlice(model, run.analysis().attribution(), steps));
  EXPECT_EQ(Sum(whole, "wall_share"), steps.total_ns());
  int64_t share_ns = 0, calls = 0;
  const std::vector<ComparedSteps> blocks = CutIntoBlocks(steps, 7);
  ASSERT_EQ(blocks.size(), 7u);
  for (const ComparedSteps& block : blocks) {
    const StepSlice slice(model, run.analysis().attribution(), block);
    const Table part = Work(slice);
    EXPECT_EQ(Sum(part, "wall_share"), block.total_ns());
    share_ns += Sum(part, "wall_share");
    for (size_t row = 0; row < part.rows.size(); ++row) {
      if (Text(part, row, "what") == "reorder") calls += Integer(part, row, "calls");
    }
    EXPECT_EQ(slice.totals().unattributed_ns + slice.totals().in_library_wall_ns, slice.model().wall_ns());
  }
  EXPECT_EQ(share_ns, steps.total_ns());
  EXPECT_EQ(calls, 2 * 49);
}

TEST(StepSliceTest, WhatIsBetweenStepsIsNotTheirs) {
  RunSpec spec;
  spec.layers = Layers(1);
  spec.steps = 10;
  TrainingRun run(spec);
  std::vector<StepTrack> tracks = run.analysis().steps();
  tracks[0].steps.erase(tracks[0].steps.begin() + 3, tracks[0].steps.begin() + 6);
  const ComparedSteps steps = ChooseSteps(tracks, StepKind::kTraining);
  const StepSlice slice(run.model(), run.analysis().attribution(), steps);
  EXPECT_EQ(slice.model().calls.size(), 6u * 2);
  int64_t in_library_ns = 0;
  for (int64_t duration_ns : slice.model().calls.duration_ns) in_library_ns += duration_ns;
  EXPECT_EQ(slice.totals().unattributed_ns, steps.total_ns() - in_library_ns);
}

// Work belongs to the step in which it was requested, and to its layer even if the call that created it is in another
// step.
TEST(StepSliceTest, WorkOfGpusBelongsToTheStepThatAskedForIt) {
  RunSpec spec;
  spec.layers = Layers(2);
  spec.steps = 10;
  TrainingRun run(spec);
  TraceModel& model = run.model();
  const StepTrack& track = run.analysis().steps()[0];
  const auto call_in = [&](int64_t start_ns, int64_t end_ns) {
    CallIndex call = 0;
    while (model.calls.start_ns[call] < start_ns) ++call;
    EXPECT_LT(model.calls.start_ns[call], end_ns);
    return call;
  };
  const Step &third = track.steps[3], &fifth = track.steps[5];
  const CallIndex in_third = call_in(third.start_ns, third.end_ns), in_fifth = call_in(fifth.start_ns, fifth.end_ns);
  const int64_t third_ns = model.calls.start_ns[in_third], fifth_ns = model.calls.start_ns[in_fifth];
  AddGpuWork({{.start_ns = third.start_ns + 50, .asked_by_ns = third_ns, .bytes = 1, .captured_by_ns = fifth_ns},
              {.start_ns = third.start_ns + 60, .asked_by_ns = fifth_ns, .bytes = 2},
              {.start_ns = third.start_ns + 70, .bytes = 3},
              {.start_ns = fifth.start_ns, .asked_by_ns = third_ns, .bytes = 4},
              {.start_ns = fifth.start_ns, .bytes = 5}},
             &model);
  model.gpu_windows = {{0, model.start_ns, model.end_ns, GpuTimeSource::kCupti, ""}};
  std::vector<StepTrack> tracks = {track};
  tracks[0].steps = {third};
  ComparedSteps steps = ChooseSteps(run.analysis().steps(), StepKind::kTraining);
  steps.tracks = tracks;
  const StepSlice slice(model, run.analysis().attribution(), steps);
  const GpuActivityColumns& gpu = slice.model().gpu;
  ASSERT_EQ(gpu.bytes, (std::vector<uint64_t>{1, 3, 4}));
  EXPECT_EQ(slice.model().calls.start_ns[gpu.launch_call[0]], third_ns);
  EXPECT_EQ(gpu.call[0], kNone) << "lies in no step of these";
  EXPECT_EQ(gpu.launch_call[1], kNone);
  EXPECT_EQ(gpu.call[2], gpu.launch_call[0]);
  EXPECT_EQ(slice.model().gpu_windows.size(), 1u);
  EXPECT_EQ(slice.model().gpu_devices.size(), 1u);
  const std::vector<Place>& places = slice.analysis().attribution().of_gpu;
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].layer, run.analysis().attribution().of_call[in_fifth].layer);
  EXPECT_NE(places[0].layer, kNone);
}

// Counts of slices of adjacent steps add up to the whole; between steps nothing counts.
TEST(CounterSliceTest, ReadingsAreDividedWhereStepsBegin) {
  CounterSeries series;
  series.names = {0, 1};
  series.time_ns = {100, 200, 200, 400};
  series.value = {1000, 5, 1010, 5, 1011, 6, 1101, 7};
  const auto amounts = [&](const std::vector<std::pair<int64_t, int64_t>>& intervals) {
    const CounterSeries slice = SliceOf(series, intervals);
    EXPECT_EQ(slice.value.size(), 2 * slice.time_ns.size());
    if (slice.value.empty()) return std::pair<uint64_t, uint64_t>();
    return std::pair(slice.value[slice.value.size() - 2] - slice.value[0], slice.value.back() - slice.value[1]);
  };
  using Pair = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(amounts({{0, 1000}}), Pair(101, 2));
  EXPECT_EQ(amounts({{0, 150}}), Pair(5, 0));
  EXPECT_EQ(amounts({{150, 301}}), Pair(6 + 45, 1));
  EXPECT_EQ(amounts({{301, 400}}), Pair(45, 1));
  EXPECT_EQ(amounts({{0, 150}, {301, 500}}), Pair(5 + 45, 1));
  EXPECT_EQ(amounts({{500, 600}}), Pair());
}

TEST(ComparedStepsTest, InterruptedStepsAreLeftOutAndCounted) {
  RunSpec spec;
  spec.layers = Layers(2);
  spec.interrupted_every = 30;
  const TrainingRun run(spec);
  const ComparedSteps steps = ChooseSteps(run.analysis().steps(), StepKind::kTraining);
  EXPECT_EQ(steps.interrupted, 3);
  EXPECT_EQ(steps.count(), 86);
  EXPECT_EQ(steps.batch, 8);
  EXPECT_EQ(ChooseSteps(run.analysis().steps(), StepKind::kInference).count(), 0);
}

// One set of steps behind every number: those of the answer are those of the tables, and each says what it left out.
TEST(ComparedStepsTest, TablesAndTheAnswerAreOfTheSameSteps) {
  RunSpec spec;
  spec.layers = Layers(2);
  spec.interrupted_every = 30;
  const TrainingRun run(spec);
  const AnalyzedRun analyzed = run.analyzed();
  const ComparedSteps steps = MainSteps(run.analysis().steps());
  EXPECT_EQ(steps.count() + 3 + 1 + steps.left_out.counts[static_cast<size_t>(LeftOut::kWarmUp)], steps.left_out.all);
  const std::string left_out = steps.left_out.Sentence();
  EXPECT_THAT(left_out, ::testing::MatchesRegex(" Left out: .*3 much longer of .* on average and the last one\\."));
  for (const auto make : {LayersTable, AccountingTable, PhasesTable, StepsTable}) {
    const absl::StatusOr<Table> table = make(*analyzed.model, analyzed.options);
    ASSERT_TRUE(table.ok());
    EXPECT_THAT(table->notes, ::testing::Contains(::testing::HasSubstr(left_out))) << table->name;
  }
  const std::vector<StepGroup> groups = GroupSteps(run.analysis().steps());
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(DurationOf(groups[0].steady), steps.total_ns());
  EXPECT_EQ(static_cast<int64_t>(groups[0].longer.size()), steps.interrupted);
}

// Two sorts, of which one takes much longer each time: that is no interruption. A request ends by itself, and each counts.
TEST(ComparedStepsTest, StepsAreJudgedBesideOthersOfTheirSort) {
  StepTrack track;
  for (int i = 0; i < 40; ++i) {
    const bool is_large = i % 10 == 9;
    const int64_t start_ns = i * 1000;
    track.steps.push_back({.start_ns = start_ns,
                           .end_ns = start_ns + (is_large ? 900 : 100),
                           .kind = StepKind::kInference,
                           .sort = is_large ? "batch 64" : "batch 1"});
  }
  EXPECT_EQ(MainSteps(Judged({track})).count(), 40);
  for (Step& step : track.steps) step.kind = StepKind::kTraining;
  track.steps[20].end_ns += 500;
  const std::vector<StepTrack> tracks = Judged({track});
  EXPECT_EQ(tracks[0].steps[20].left_out, LeftOut::kMuchLonger);
  EXPECT_EQ(tracks[0].steps[39].left_out, LeftOut::kCutShort);
  EXPECT_EQ(MainSteps(tracks).left_out.Text(), "1 much longer of 600 ns and the last one");
}

}  // namespace
}  // namespace dlhook::analyzer
