// Ticks -> nanoseconds, and several processes on one axis.
#include "analyzer/reader/clock_map.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

trace::ClockSample Sample(uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns = 0) {
  trace::ClockSample sample;
  sample.set_ticks(ticks);
  sample.set_monotonic_ns(monotonic_ns);
  sample.set_realtime_ns(realtime_ns);
  return sample;
}

trace::Clock Tsc(uint64_t ticks_per_second) {
  trace::Clock clock;
  clock.set_kind(trace::Clock::TSC);
  clock.set_ticks_per_second(ticks_per_second);
  return clock;
}

TEST(ClockMap, WithoutSamplesCountsFromZeroAtTheHeadersRate) {
  const ClockMap clock(Tsc(2'000'000'000), {}, nullptr);
  EXPECT_EQ(clock.ToNs(0), 0);
  EXPECT_EQ(clock.ToNs(3000), 1500);
  EXPECT_FALSE(clock.has_axis());
}

TEST(ClockMap, OneSampleSetsTheOriginForTheHeadersRate) {
  const ClockMap clock(Tsc(2'000'000'000), {Sample(1000, 50'000)}, nullptr);
  EXPECT_EQ(clock.ToNs(1000), 50'000);
  EXPECT_EQ(clock.ToNs(3000), 51'000);
  EXPECT_EQ(clock.ToNs(0), 49'500);
  EXPECT_EQ(clock.DurationNs(2000), 1000);
}

TEST(ClockMap, IsLinearBetweenSamplesAndKeepsTheMeanRateOutside) {
  // 2 ticks per nanosecond in the first second, 1 in the next: 1.5 on average.
  const ClockMap clock(Tsc(77'000),
                       {Sample(0, 10), Sample(2'000'000'000, 1'000'000'010), Sample(3'000'000'000, 2'000'000'010)},
                       nullptr);
  EXPECT_EQ(clock.ToNs(1'000'000'000), 500'000'010);
  EXPECT_EQ(clock.ToNs(2'000'000'000), 1'000'000'010);
  EXPECT_EQ(clock.ToNs(2'500'000'000), 1'500'000'010);
  EXPECT_NEAR(clock.ToNs(6'000'000'000), 4'000'000'010, 1);
}

TEST(ClockMap, NeverGoesBackwardsWhereSegmentsMeet) {
  std::vector<trace::ClockSample> samples;
  for (uint64_t i = 0; i < 20; ++i) samples.push_back(Sample(i * 24'450'003 + i % 3, 1 + i * 10'000'007 - i % 5));
  const ClockMap clock(Tsc(2'445'000'000), samples, nullptr);
  int64_t last = clock.ToNs(0);
  for (uint64_t ticks = 0; ticks < 21 * 24'450'003; ticks += 1013) {
    const int64_t ns = clock.ToNs(ticks);
    ASSERT_GE(ns, last) << ticks;
    last = ns;
  }
  for (const trace::ClockSample& sample : samples) {
    EXPECT_EQ(clock.ToNs(sample.ticks()), static_cast<int64_t>(sample.monotonic_ns()));
    if (sample.ticks() == 0) continue;
    EXPECT_LE(clock.ToNs(sample.ticks() - 1), static_cast<int64_t>(sample.monotonic_ns()));
  }
}

TEST(ClockMap, TakesNoRateFromSamplesThatAreTooClose) {
  const ClockMap clock(Tsc(1'000'000'000), {Sample(0, 1000), Sample(10, 3000)}, nullptr);
  EXPECT_EQ(clock.ToNs(1'000'000), 1'001'000);
}

TEST(ClockMap, LeavesOutASampleThatGoesBackwards) {
  Oddities oddities;
  const ClockMap clock(Tsc(1'000'000'000),
                       {Sample(0, 0), Sample(1'000'000'000, 500'000'000), Sample(900'000'000, 900'000'000)}, &oddities);
  EXPECT_EQ(clock.ToNs(1'000'000'000), 500'000'000);
  EXPECT_EQ(std::move(oddities).Take().size(), 1u);
}

TEST(ClockMap, TakesMonotonicTicksAsTheyAre) {
  trace::Clock clock;
  clock.set_kind(trace::Clock::MONOTONIC);
  const ClockMap map(clock, {Sample(1000, 1003), Sample(2'000'000'000, 2'000'000'001)}, nullptr);
  EXPECT_EQ(map.ToNs(1'234'567'890'123), 1'234'567'890'123);
}

std::string ProcessTrace(const std::string& boot_id, uint64_t loaded_ticks, const trace::ClockSample* sample) {
  std::string text = "packet { header { schema_major: 1 process { boot_id: '" + boot_id +
                     "' shim_loaded_ticks: " + std::to_string(loaded_ticks) +
                     " } clock { kind: TSC ticks_per_second: 1000000000 } } }";
  if (sample != nullptr) text += "packet { clock_sample { " + sample->ShortDebugString() + " } }";
  return text;
}

TEST(ClockMap, PutsProcessesOfOneBootOnTheMonotonicAxis) {
  const trace::ClockSample a = Sample(0, 5000, 1'000'005'000), b = Sample(0, 7000, 2'000'007'000);
  const TraceModel model = LoadTexts({{"a", ProcessTrace("boot", 100, &a)}, {"b", ProcessTrace("boot", 100, &b)}});
  EXPECT_EQ(model.processes[0].start_ns, 5100);
  EXPECT_EQ(model.processes[1].start_ns, 7100);
  EXPECT_EQ(model.start_ns, 5100);
  EXPECT_EQ(model.end_ns, 7100);
}

TEST(ClockMap, PutsProcessesOfOtherMachinesThereByRealtime) {
  const trace::ClockSample a = Sample(0, 5000, 1'000'005'000), b = Sample(0, 900'000, 1'000'006'000);
  const TraceModel model = LoadTexts({{"a", ProcessTrace("boot a", 0, &a)}, {"b", ProcessTrace("boot b", 1, &b)}});
  EXPECT_EQ(model.processes[1].start_ns, 6001);
  EXPECT_TRUE(model.oddities.empty());
}

TEST(ClockMap, LetsAProcessWithoutSamplesBeginWithTheRun) {
  const trace::ClockSample a = Sample(0, 5000, 1'000'005'000);
  const TraceModel model =
      LoadTexts({{"a", ProcessTrace("boot", 10, &a)}, {"b", ProcessTrace("boot", 123'456, nullptr)}});
  EXPECT_EQ(model.processes[1].start_ns, 5010);
  EXPECT_EQ(model.oddities.size(), 1u);
}

}  // namespace
}  // namespace dlhook::analyzer
