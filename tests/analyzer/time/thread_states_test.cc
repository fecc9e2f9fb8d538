// What threads did: sums of parts of their time, and looks in the activities that they met.
#include "analyzer/time/thread_states.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace thread_states_test {

constexpr int64_t kMs = 1'000'000;

class ThreadStatesTest : public testing::Test {
 protected:
  // In milliseconds: when; until then running, queued, found in a lock, found asleep.
  struct Reading {
    int64_t ms, running, queued, lock, sleep;
  };
  void AddThread(ThreadIndex thread, const std::vector<Reading>& readings) {
    CounterSeries series = {.thread = thread, .tid = 70 + thread, .kind = CounterKind::kStates};
    for (const char* name : {"running", "queued", "lock", "sleep"}) series.names.push_back(builder_.AddName(name));
    for (const Reading& reading : readings) {
      series.time_ns.push_back(reading.ms * kMs);
      for (int64_t ms : {reading.running, reading.queued, reading.lock, reading.sleep})
        series.value.push_back(static_cast<uint64_t>(ms * kMs));
    }
    builder_.model().states.push_back(std::move(series));
  }
  // "running queued blocked of wall, spread", in milliseconds.
  std::string In(int64_t start_ms, int64_t end_ms) {
    const StateSums sums = ReadThreadStates(builder_.model()).front().In({start_ms * kMs, end_ms * kMs});
    std::string text;
    for (int64_t ns : {sums.running_ns, sums.queued_ns, sums.blocked_ns(), sums.wall_ns, sums.spread_ns})
      text += std::to_string(ns / kMs) + " ";
    return text;
  }
  void Op(int64_t start_ms, int64_t end_ms) {
    builder_.Scope("aten::add", ScopeKind::kFrameworkOp, start_ms * kMs, (end_ms - start_ms) * kMs, 0, -1,
                   builder_.AddStack({{"train.py", "<module>", 7}}));
  }
  ModelBuilder builder_;
};

TEST_F(ThreadStatesTest, PartsOfTime) {
  AddThread(0, {{0, 0, 0, 0, 0}, {100, 100, 0, 0, 0}, {200, 100, 0, 100, 0}, {300, 140, 20, 100, 100}});
  EXPECT_EQ(In(0, 300), "140 20 140 300 0 ");
  EXPECT_EQ(In(50, 150), "50 0 50 100 0 ") << "it did one thing between two looks: nothing is guessed";
  EXPECT_EQ(In(200, 250), "20 10 20 50 50 ") << "spread evenly over the time between two looks";
  EXPECT_EQ(In(-100, 1000), "140 20 140 300 0 ") << "only while it was there";
  EXPECT_EQ(In(400, 500), "0 0 0 0 0 ");
}

// Requests of 100 ms, every second.
TEST_F(ThreadStatesTest, RequestsOfALoopLastUntilTheNextOneBegins) {
  const auto end_of_first = [](const TraceModel& model) {
    std::vector<StepTrack> tracks = {{.thread = 0}};
    for (const int64_t ms : {0, 1000, 2000})
      tracks[0].steps.push_back({.start_ns = ms * kMs, .end_ns = (ms + 100) * kMs, .kind = StepKind::kInference});
    CloseLoops(model, &tracks);
    EXPECT_EQ(tracks[0].steps[2].end_ns, 2100 * kMs) << "nothing is known of the time after the last one";
    return tracks[0].steps[0].end_ns / kMs;
  };
  EXPECT_EQ(end_of_first(builder_.model()), 100) << "what the thread did is not known";
  AddThread(0, {{0, 0, 0, 0, 0},
                {100, 100, 0, 0, 0},
                {1000, 200, 100, 0, 700},
                {1100, 300, 100, 0, 700},
                {2100, 500, 200, 0, 1400}});
  EXPECT_EQ(end_of_first(builder_.model()), 100) << "it mostly slept";
  builder_.model().states.clear();
  AddThread(0, {{0, 0, 0, 0, 0},
                {100, 100, 0, 0, 0},
                {1000, 700, 100, 200, 0},
                {1100, 800, 100, 200, 0},
                {2100, 1500, 200, 400, 0}});
  EXPECT_EQ(end_of_first(builder_.model()), 1000);
}

// Five requests of 10 ms, every 40 ms: by two looks around all of them.
TEST_F(ThreadStatesTest, RequestsOfAShortLoopLastUntilTheNextOneIfHardlyAnythingIsBlocked) {
  const auto end_of_first = [](const TraceModel& model) {
    std::vector<StepTrack> tracks = {{.thread = 0}};
    for (const int64_t ms : {0, 40, 80, 120, 160})
      tracks[0].steps.push_back({.start_ns = ms * kMs, .end_ns = (ms + 10) * kMs, .kind = StepKind::kInference});
    CloseLoops(model, &tracks);
    return tracks[0].steps[0].end_ns / kMs;
  };
  AddThread(0, {{0, 0, 0, 0, 0}, {200, 120, 0, 0, 80}});
  EXPECT_EQ(end_of_first(builder_.model()), 10) << "it may have slept for more than half of the time between";
  builder_.model().states.clear();
  AddThread(0, {{0, 0, 0, 0, 0}, {200, 170, 0, 0, 30}});
  EXPECT_EQ(end_of_first(builder_.model()), 40);
}

TEST_F(ThreadStatesTest, InWhatItWasBlocked) {
  EXPECT_EQ(BlockedInText({}), "");
  EXPECT_EQ(BlockedInText({100}), "lock");
  EXPECT_EQ(BlockedInText({810, 0, 0, 170, 20}), "lock 81 %, sleep 17 %");
  EXPECT_EQ(BlockedInWords({810, 0, 0, 170, 20}), "lock");
  EXPECT_EQ(BlockedInWords({300, 0, 0, 680, 20}), "sleep, lock");
}

TEST_F(ThreadStatesTest, LooksDivideTheActivitiesThatTheyMet) {
  Op(0, 100);
  Op(500, 1000);
  std::vector<Reading> readings = {{0, 0, 0, 0, 0}, {50, 50, 0, 0, 0}, {110, 100, 0, 10, 0}};
  readings.push_back({490, 100, 0, 10, 380});  // one reading of a long sleep stands for several looks
  readings.push_back({550, 120, 40, 10, 380});
  AddThread(0, readings);
  LookSums gap, op;
  const TraceModel model = builder_.Build(1000 * kMs);
  const StateLooks looks(model);
  for (const StateLook& look : looks.Of(0)) (look.piece.kind == ActivityKind::kNotSeen ? gap : op).Add(look.sums);
  EXPECT_EQ(op.looks, 1) << "the first look stands for nothing";
  EXPECT_EQ(op.queued_ns, 40 * kMs);
  EXPECT_EQ(op.BlockedOf(100), std::nullopt) << "too few looks";
  EXPECT_EQ(gap.looks, 8);
  EXPECT_EQ(gap.blocked_ns, 390 * kMs);
  EXPECT_EQ(gap.running_ns, 50 * kMs);
  gap.looks = 10;
  EXPECT_EQ(gap.BlockedOf(4400), 3900);
  gap.running_ns = gap.blocked_ns;  // Wilson's interval of 5 of 10: 0.2366 to 0.7634
  EXPECT_EQ(gap.BlockedRangeOf(10'000).least_ns, 2365);
  EXPECT_EQ(gap.BlockedRangeOf(10'000).most_ns, 7634);
}

// A thread of 5 s in a program of 64 s: its looks say nothing of the other 59, and of time in which nothing records not
// whose it is.
TEST_F(ThreadStatesTest, LooksStandForNoMoreThanTheyMet) {
  LookSums young = {.looks = 100, .running_ns = 1000 * kMs, .blocked_ns = 4100 * kMs};
  EXPECT_EQ(young.BlockedOf(5300 * kMs), 4'260'784'313) << "as much as chance makes of it";
  EXPECT_NEAR(static_cast<double>(young.BlockedOf(64'000 * kMs).value()), 4100e6, 1);
  EXPECT_LT(young.BlockedRangeOf(64'000 * kMs).least_ns, 4100 * kMs);
  EXPECT_GT(young.BlockedRangeOf(64'000 * kMs).most_ns, 58'900 * kMs);
  for (const bool has_other : {false, true}) {
    builder_ = ModelBuilder();
    for (const int64_t ms : {0, 9999}) builder_.Scope("aten::mm", ScopeKind::kFrameworkOp, ms * kMs, kMs);
    AddThread(0, {{5000, 0, 0, 0, 0}, {5100, 0, 0, 100, 0}, {5600, 0, 0, 600, 0}});
    if (has_other) AddThread(kNone, {{0, 0, 0, 0, 0}, {9000, 0, 9000, 0, 0}});
    builder_.model().threads.front().tid = 99;  // not the process's first one
    const TraceModel model = builder_.Build(10'000 * kMs);
    const StateLooks looks(model);
    int64_t unattributed = 0;
    for (const StateLook& look : looks.Of(0)) unattributed += look.piece.kind == ActivityKind::kUnattributed ? 1 : 0;
    EXPECT_EQ(unattributed, has_other ? 0 : 1);
  }
}

}  // namespace thread_states_test
}  // namespace dlhook::analyzer
