// Step times of a run that goes on, from steps that are handed over window by window.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "analyzer/answer/live.h"

namespace dlhook::analyzer {
namespace step_history_test {

constexpr int64_t kMs = 1'000'000;

// Steps of these durations, one after another from `start_ns` on, and one that has just begun.
StepTrack TrackOf(int64_t start_ns, std::vector<int64_t> durations) {
  StepTrack track;
  durations.push_back(1);
  for (const int64_t duration_ns : durations) {
    Step& step = track.steps.emplace_back();
    step.start_ns = start_ns;
    step.end_ns = start_ns += duration_ns;
    step.kind = StepKind::kTraining;
  }
  return track;
}

TEST(StepHistoryTest, CountsEachStepOnce) {
  StepHistory history;
  history.Add(TrackOf(0, {kMs, kMs, kMs}), StepKind::kTraining);
  EXPECT_EQ(history.size(), 3u);
  history.Add(TrackOf(kMs, {kMs, kMs, kMs}), StepKind::kTraining);  // one of them is new
  EXPECT_EQ(history.size(), 4u);
  history.Add(TrackOf(kMs, {kMs, kMs, kMs}), StepKind::kInference);  // another program, or another part of it
  EXPECT_EQ(history.size(), 0u);
}

TEST(StepHistoryTest, StartsAgainWhereTimeGoesBack) {
  StepHistory history;
  history.Add(TrackOf(1000 * kMs, {kMs, kMs}), StepKind::kTraining);
  history.Add(TrackOf(0, {kMs, kMs, kMs}), StepKind::kTraining);
  EXPECT_EQ(history.size(), 3u);
}

TEST(StepHistoryTest, ComparesTheNewestTimeWithTheOneBefore) {
  StepHistory history;
  EXPECT_FALSE(history.Trend().has_value());
  std::vector<int64_t> durations(200, 10 * kMs);
  durations.insert(durations.end(), 50, 20 * kMs);
  history.Add(TrackOf(0, durations), StepKind::kTraining);
  const auto trend = history.Trend();
  ASSERT_TRUE(trend.has_value());
  EXPECT_EQ(trend->now_ns, 20.0 * kMs);
  EXPECT_EQ(trend->before_ns, 10.0 * kMs);
  EXPECT_EQ(trend->now_steps, 50u);
  EXPECT_EQ(trend->now_span_ns, 1000 * kMs);
  EXPECT_EQ(trend->before_span_ns, 2000 * kMs);
}

TEST(StepHistoryTest, TheNewestTimeIsAMinuteAtMost) {
  StepHistory history;
  history.Add(TrackOf(0, std::vector<int64_t>(600, 1000 * kMs)), StepKind::kTraining);
  EXPECT_EQ(history.Trend()->now_steps, 60u);
  EXPECT_EQ(history.Trend()->before_steps, 540u);
}

TEST(StepHistoryTest, DrawsItsCourse) {
  StepHistory history;
  EXPECT_EQ(history.Sparkline(4, true), "");
  history.Add(TrackOf(0, {10 * kMs, 10 * kMs, 20 * kMs, 20 * kMs, 20 * kMs}), StepKind::kTraining);
  EXPECT_EQ(history.Sparkline(4, true), "▁███");
  EXPECT_EQ(history.Sparkline(4, false), ".@@@");
  EXPECT_EQ(history.Sparkline(8, true), "▁▁ █ █ █") << "blank where no step has its middle";
}

TEST(StepHistoryTest, SmallChangesLookSmall) {
  StepHistory history;
  history.Add(TrackOf(0, {1000, 1000, 1010, 1010}), StepKind::kTraining);
  EXPECT_EQ(history.Sparkline(2, true), "▁▁");
}

}  // namespace step_history_test
}  // namespace dlhook::analyzer
