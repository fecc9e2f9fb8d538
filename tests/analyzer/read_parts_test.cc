// A long run read in parts: the steps found in them are those that the whole run has there, and they consist of the same.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/cli/tables.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/work/step_work.h"
#include "proto/trace.pb.h"
#include "tests/analyzer/test_trace.h"
#include "tests/analyzer/training_trace.h"

namespace dlhook::analyzer {
namespace {

constexpr int kSteps = 2000;
constexpr size_t kParts = 8;

struct Read {
  explicit Read(LoadedRun loaded) : run(std::move(loaded)), choices(ResolveChoices(&run.model)), analysis(run.model) {}

  LoadedRun run;
  const Choices choices;
  const LayerAnalysis analysis;
};

class ReadPartsTest : public testing::Test {
 protected:
  Read Load(LoadOptions options) {
    absl::StatusOr<LoadedRun> run = LoadRun(path_, options);
    EXPECT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(run->damage.empty());
    return Read(*std::move(run));
  }

  const std::string bytes_ = [] {
    std::string bytes;
    WriteTrainingTrace(kSteps, [&](const std::string& packet) { bytes += packet; });
    return bytes;
  }();
  const TemporaryFolder folder_;
  const std::string path_ = folder_.Write("1.dlh", bytes_);
  const LoadOptions in_parts_ = {.most_bytes = bytes_.size() / 4, .parts = kParts};
};

const StepTrack& TrackOf(const Read& read) {
  EXPECT_EQ(read.analysis.steps().size(), 1u);
  return read.analysis.steps().front();
}

// By name of layer and of what is done there.
using Work = std::map<std::tuple<std::string, LayerDirection, ActivityKind, uint32_t>, std::pair<int64_t, int64_t>>;

Work WorkIn(const Read& read, const std::vector<Step>& steps) {
  StepTrack track = TrackOf(read);
  track.steps = steps;
  const LayerAnalysis analysis(read.analysis, {track});
  const StepWork work(read.run.model, analysis, FoldedTime::Of(read.run.model, analysis));
  Work sums;
  for (const auto& [doing, done] : work.sums()) {
    auto& [ns, calls] = sums[{work.Group(doing).label, doing.direction, doing.activity, doing.what}];
    ns += done.share_ns;
    calls += done.calls;
  }
  return sums;
}

TEST_F(ReadPartsTest, StepsAreThoseOfTheWholeRun) {
  const Read whole = Load({}), parts = Load(in_parts_);
  ASSERT_EQ(parts.run.model.read_spans.size(), kParts);
  EXPECT_LT(parts.run.model.scopes.size(), whole.run.model.scopes.size() / 3);
  std::map<int64_t, const Step*> known;
  for (const Step& step : TrackOf(whole).steps) known[step.start_ns] = &step;
  EXPECT_GE(known.size(), size_t{kSteps});
  EXPECT_GT(TrackOf(parts).steps.size(), size_t{kSteps} / 6);
  for (const Step& step : TrackOf(parts).steps) {
    const auto found = known.find(step.start_ns);
    ASSERT_NE(found, known.end()) << step.start_ns;
    EXPECT_EQ(step.end_ns, found->second->end_ns);
    EXPECT_EQ(step.kind, found->second->kind);
    EXPECT_EQ(step.is_warm_up, found->second->is_warm_up);
    EXPECT_EQ(step.micro_steps, found->second->micro_steps);
    EXPECT_EQ(step.phases.size(), found->second->phases.size());
  }
}

TEST_F(ReadPartsTest, StepsConsistOfTheSame) {
  const Read whole = Load({}), parts = Load(in_parts_);
  const std::vector<Step>& steps = TrackOf(parts).steps;
  const Work expected = WorkIn(whole, steps);
  EXPECT_EQ(WorkIn(parts, steps), expected);
  EXPECT_GT(expected.size(), 8u);
}

TEST_F(ReadPartsTest, EveryPartHasSteps) {
  const Read parts = Load(in_parts_);
  for (const ReadSpan& span : parts.run.model.read_spans) {
    const auto& steps = TrackOf(parts).steps;
    const auto is_in = [&](const Step& step) { return step.start_ns >= span.start_ns && step.end_ns <= span.end_ns; };
    EXPECT_GT(std::count_if(steps.begin(), steps.end(), is_in), kSteps / 8 / static_cast<int>(kParts));
  }
}

TEST_F(ReadPartsTest, WhatIsToldOfAllStaysTheSame) {
  const Read whole = Load({}), parts = Load(in_parts_);
  EXPECT_EQ(parts.run.model.oddities, whole.run.model.oddities);
  EXPECT_EQ(parts.run.model.start_ns, whole.run.model.start_ns);
  EXPECT_EQ(parts.run.model.end_ns, whole.run.model.end_ns);
  EXPECT_EQ(parts.run.model.processes[0].calls, whole.run.model.processes[0].calls);
  EXPECT_EQ(parts.run.model.threads.size(), whole.run.model.threads.size());
}

TEST_F(ReadPartsTest, SmallRunsAreReadWhole) {
  EXPECT_TRUE(Load({.most_bytes = bytes_.size() / 2, .parts = kParts}).run.model.read_spans.empty());
}

TEST_F(ReadPartsTest, FewStepsAreNotEnough) {
  const Read parts = Load(in_parts_);
  EXPECT_TRUE(HasEnoughSteps(parts.run.model, parts.analysis.steps()));
  StepTrack few = TrackOf(parts);
  few.steps.resize(kParts);
  EXPECT_FALSE(HasEnoughSteps(parts.run.model, {few}));
  EXPECT_TRUE(HasEnoughSteps(Load({}).run.model, {}));
}

// Work of GPUs stands in batches of its own.
TEST(ReadParts, RunsOfGpusAreReadWhole) {
  const std::string samples = R"(
      packet { call_batch { thread_id: 1 base_end_ticks: 5 op_iid: 1 end_delta_ticks: 1 duration: 1 } }
      packet { clock_sample { ticks: 9 monotonic_ns: 9 realtime_ns: 9 } })";
  const std::string without = TraceBytesOf(HeaderText() + samples);
  EXPECT_EQ(ChooseParts({without}, 0.5, 2).spans().size(), 2u);
  const std::string with = TraceBytesOf(HeaderText() + samples + "packet { gpu_link { thread_id: 1 } }");
  EXPECT_TRUE(ChooseParts({with}, 0.5, 2).all());
}

TEST(ReadParts, SpansReachTheEnds) {
  const ReadParts parts(1000, 2000, 0.25, 5);
  EXPECT_EQ(parts.spans(),
            (std::vector<ReadParts::Span>{{0, 1000}, {1187, 1250}, {1437, 1500}, {1687, 1750}, {1937, UINT64_MAX}}));
  EXPECT_TRUE(parts.Has(1100, 1187));
  EXPECT_TRUE(parts.Has(1249, 1300));
  EXPECT_FALSE(parts.Has(1250, 1436));
  EXPECT_TRUE(parts.Has(1100, 1900));
}

TEST(ReadParts, OutlineOfABatch) {
  trace::ScopeBatch batch;
  batch.set_thread_id(3);
  batch.set_base_end_ticks(1000);
  for (int i = 0; i < 4; ++i) {
    batch.add_name_iid(1);
    batch.add_end_delta_ticks(i == 2 ? -300 : 500);
    batch.add_duration_ticks(i == 3 ? 1200 : 100);
  }
  const auto outline = OutlineOfScopes(batch.SerializeAsString());
  ASSERT_TRUE(outline);
  EXPECT_EQ(outline->thread_id, 3u);
  EXPECT_EQ(outline->count, 4);
  EXPECT_EQ(outline->start_ticks, 1000u);
  EXPECT_EQ(outline->end_ticks, 2200u);
  const std::string whole = batch.SerializeAsString();
  for (size_t cut = 1; cut < whole.size(); ++cut) OutlineOfScopes(whole.substr(0, cut));  // reads no further
  EXPECT_FALSE(OutlineOfScopes(whole.substr(0, whole.size() - 1)));
}

}  // namespace
}  // namespace dlhook::analyzer
