// Counts of threads, divided among their activities: the rules one by one, and random runs, whose sums must be exact.
#include "analyzer/time/counter_division.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using Scope = ScopeKind;
constexpr auto kCall = ActivityKind::kCall;
constexpr auto kScope = ActivityKind::kScope;
constexpr auto kUnattributed = ActivityKind::kUnattributed;

struct Reading {
  int64_t time_ns;
  std::vector<uint64_t> values;
  uint64_t enabled_ns = 0;
  uint64_t running_ns = 0;
};

CounterSeries Series(ModelBuilder* builder, ThreadIndex thread, uint32_t tid, CounterKind kind,
                     const std::vector<std::string>& names, const std::vector<Reading>& readings) {
  CounterSeries series;
  series.thread = thread;
  series.tid = tid;
  series.kind = kind;
  series.source = kind == CounterKind::kBoundary ? CounterSource::kRusage : CounterSource::kProc;
  for (const std::string& name : names) series.names.push_back(builder->AddName(name));
  for (const Reading& reading : readings) {
    series.time_ns.push_back(reading.time_ns);
    series.value.insert(series.value.end(), reading.values.begin(), reading.values.end());
    if (reading.enabled_ns == 0) continue;
    series.enabled_ns.push_back(reading.enabled_ns);
    series.running_ns.push_back(reading.running_ns);
  }
  return series;
}

class CounterDivision : public testing::Test {
 protected:
  OpIndex Gemm() { return builder_.AddOp(GemmDefinition(8, 8, 8, "NN")); }
  void AddSeries(ThreadIndex thread, uint32_t tid, CounterKind kind, const std::vector<Reading>& readings,
                 const std::vector<std::string>& names = {"task-clock"}) {
    builder_.model().counters.push_back(Series(&builder_, thread, tid, kind, names, readings));
  }
  ModelBuilder builder_;
};

// Amounts of a counter by activity, and whether they are estimates.
using Key = std::tuple<ActivityKind, uint32_t, bool>;
std::map<Key, double> Amounts(const TraceModel& model, const CountedRun& run, CounterIndex counter = 0) {
  std::map<Key, double> amounts;
  DivideCounters(model, run, 0, {}, [&](const CountedPiece& piece) {
    for (size_t j = 0; j < piece.counters.size(); ++j) {
      if (piece.counters[j] == counter && piece.amounts[j] != 0) {
        amounts[{piece.kind, piece.index, piece.is_estimated}] += piece.amounts[j];
      }
    }
  });
  return amounts;
}
std::map<Key, double> Amounts(const TraceModel& model) { return Amounts(model, ReadCounters(model)); }

void ExpectNear(const std::map<Key, double>& found, const std::map<Key, double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (auto a = found.begin(), b = expected.begin(); a != found.end(); ++a, ++b) {
    EXPECT_TRUE(a->first == b->first);
    EXPECT_NEAR(a->second, b->second, 1e-6);
  }
}

TEST_F(CounterDivision, BetweenTwoReadingsByTimeToWhatTheThreadDid) {
  builder_.Scope("aten::conv2d", Scope::kFrameworkOp, 100, 300);
  builder_.Call(Gemm(), 150, 50);
  AddSeries(0, 1, CounterKind::kBoundary, {{100, {0}}, {200, {1000}}, {400, {1200}}});
  ExpectNear(Amounts(builder_.Build(1000)), {{{kScope, 0, false}, 500 + 200}, {{kCall, 0, false}, 500}});
}

TEST_F(CounterDivision, WorkersCountForWhatTheProcessDoes) {
  const ThreadIndex second = builder_.AddThread();
  builder_.Call(Gemm(), 0, 100);
  builder_.Call(Gemm(), 50, 50, second);
  AddSeries(kNone, 9, CounterKind::kSample, {{0, {0}}, {200, {400}}});  // two per ns
  ExpectNear(Amounts(builder_.Build(1000)),
             {{{kCall, 0, true}, 100 + 50}, {{kCall, 1, true}, 50}, {{kUnattributed, kNone, false}, 200}});
}

TEST_F(CounterDivision, AThreadThatDoesNothingKnownCountsForTheOthers) {
  const ThreadIndex second = builder_.AddThread();
  builder_.Call(Gemm(), 0, 100);
  builder_.Call(Gemm(), 200, 100, second);
  AddSeries(second, 2, CounterKind::kBoundary, {{0, {0}}, {300, {300}}});
  ExpectNear(Amounts(builder_.Build(300)),
             {{{kCall, 0, true}, 100}, {{kUnattributed, kNone, false}, 100}, {{kCall, 1, false}, 100}});
}

TEST_F(CounterDivision, OutsideOfTheRunItIsNobodysButCounted) {
  builder_.Call(Gemm(), 0, 100);
  AddSeries(0, 1, CounterKind::kSample, {{-100, {0}}, {200, {300}}});
  ExpectNear(Amounts(builder_.Build(100)), {{{kCall, 0, false}, 100}, {{kUnattributed, kNone, false}, 200}});
}

TEST_F(CounterDivision, BoundariesCountAndSamplesAroundThem) {
  builder_.Call(Gemm(), 100, 100);
  AddSeries(0, 1, CounterKind::kSample, {{0, {0}}, {110, {55}}, {190, {100}}, {300, {150}}});
  AddSeries(0, 1, CounterKind::kBoundary, {{100, {50}}, {200, {104}}});
  const CountedRun run = ReadCounters(builder_.Build(300));
  int64_t sum = 0;
  for (const CounterTimeline& timeline : run.timelines)
    sum = std::accumulate(timeline.amounts.begin(), timeline.amounts.end(), sum);
  EXPECT_EQ(sum, 150) << "values of both count since the thread began: nothing twice, nothing lost at the seams";
  ExpectNear(Amounts(builder_.model(), run), {{{kUnattributed, kNone, false}, 50 + 46}, {{kCall, 0, false}, 54}});
}

TEST_F(CounterDivision, SharedRegistersAreMadeGood) {
  builder_.Call(Gemm(), 0, 400);
  AddSeries(0, 1, CounterKind::kBoundary,
            {{0, {0}, 1, 1}, {100, {10}, 101, 51}, {200, {10}, 201, 51}, {300, {40}, 301, 151}});
  const TraceModel model = builder_.Build(400);
  const CountedRun run = ReadCounters(model);
  ASSERT_EQ(run.timelines.size(), 1u);
  // 10 in half of the time; then nothing until 200, so that 30 in half of 200 ns until 300.
  EXPECT_EQ(run.timelines[0].amounts, (std::vector<int64_t>{20, 60}));
  EXPECT_EQ(run.running_ns, 150);
  EXPECT_EQ(run.enabled_ns, 300);
}

TEST_F(CounterDivision, TheProcessAsAWholeIsNoThread) {
  AddSeries(kNone, 0, CounterKind::kSample, {{0, {0}}, {100, {70}}, {200, {90}}});
  AddSeries(kNone, 5, CounterKind::kSample, {{0, {0}}, {200, {80}}});
  const CountedRun run = ReadCounters(builder_.Build(200));
  ASSERT_EQ(run.timelines.size(), 1u);
  EXPECT_EQ(run.processes[0].amount[0], 90);
  EXPECT_TRUE(run.processes[0].is_known[0]);
}

TEST(RoundToSumTest, LargestFractionsFirst) {
  EXPECT_EQ(RoundToSum({1.5, 2.75, 0.75}, 5), (std::vector<int64_t>{1, 3, 1}));
  EXPECT_EQ(RoundToSum({0.2, 0.2, 0.6}, 1), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(RoundToSum({}, 0), std::vector<int64_t>());
  EXPECT_EQ(RoundToSum({10.0, 2.0}, 13), (std::vector<int64_t>{11, 2})) << "what doubles lost";
  EXPECT_EQ(RoundToSum({10.0, 2.0}, 8), (std::vector<int64_t>{6, 2}));
}

// Threads with random calls, scopes and readings, and workers: the pieces add up to the counts.
TEST(CounterDivisionOfRandomRuns, AddsUp) {
  std::mt19937 random(20261122);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 200; ++round) {
    ModelBuilder builder;
    const OpIndex gemm = builder.AddOp(GemmDefinition(8, 8, 8, "NN"));
    for (int i = 0; i < 3; ++i) builder.AddThread();
    for (ThreadIndex thread = 0; thread < 3; ++thread) {
      for (int64_t at_ns = below(100); at_ns < 2000; at_ns += 1 + below(150)) {
        const int64_t duration_ns = 1 + below(60);
        if (below(2) == 0)
          builder.Call(gemm, at_ns, duration_ns, thread);
        else
          builder.Scope("aten::relu", Scope::kFrameworkOp, at_ns, duration_ns, thread);
        at_ns += duration_ns;
      }
    }
    for (uint32_t tid = 1; tid < 7; ++tid) {
      const ThreadIndex thread = tid < 5 ? tid % 4 : kNone;
      std::vector<Reading> readings;
      uint64_t value = 0;
      for (int64_t at_ns = below(300) - 100; at_ns < 2200; at_ns += below(400)) {
        readings.push_back({at_ns, {value, value * 3}});
        value += static_cast<uint64_t>(below(1000000));
      }
      const CounterKind kind = below(2) == 0 ? CounterKind::kSample : CounterKind::kBoundary;
      builder.model().counters.push_back(
          Series(&builder, thread, thread == kNone ? tid : 10 + thread, kind, {"a", "b"}, readings));
    }
    const TraceModel model = builder.Build(2000);
    const CountedRun run = ReadCounters(model);
    std::vector<double> counted(2), divided(2);
    for (const CounterTimeline& timeline : run.timelines) {
      for (size_t i = 0; i < timeline.amounts.size(); ++i) {
        counted[timeline.counters[i % timeline.counters.size()]] += static_cast<double>(timeline.amounts[i]);
      }
    }
    int64_t share_ns = 0;
    DivideCounters(model, run, 0, {500, 777, 1500}, [&](const CountedPiece& piece) {
      for (size_t j = 0; j < piece.counters.size(); ++j) divided[piece.counters[j]] += piece.amounts[j];
      share_ns += piece.share_ns;
    });
    for (size_t counter = 0; counter < 2; ++counter) EXPECT_NEAR(divided[counter], counted[counter], 0.5) << round;
    EXPECT_EQ(share_ns, model.processes[0].end_ns - model.processes[0].start_ns);
  }
}

}  // namespace
}  // namespace dlhook::analyzer
