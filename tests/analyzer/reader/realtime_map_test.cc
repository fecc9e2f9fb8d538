// Maps CLOCK_REALTIME to the run's axis: exact without steps; all possible times if the clock was set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "analyzer/reader/clock_map.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kOffset = 1'700'000'000 * kS;

// One sample per second; CLOCK_REALTIME is ahead by kOffset plus these.
RealtimeMap MapOf(const std::vector<int64_t>& offsets_ns) {
  trace::Clock clock;
  clock.set_kind(trace::Clock::MONOTONIC);
  clock.set_ticks_per_second(kS);
  std::vector<trace::ClockSample> samples;
  for (size_t i = 0; i < offsets_ns.size(); ++i) {
    const int64_t at_ns = static_cast<int64_t>(i) * kS;
    trace::ClockSample& sample = samples.emplace_back();
    sample.set_ticks(static_cast<uint64_t>(at_ns));
    sample.set_monotonic_ns(static_cast<uint64_t>(at_ns));
    sample.set_realtime_ns(static_cast<uint64_t>(at_ns + kOffset + offsets_ns[i]));
  }
  return RealtimeMap(ClockMap(clock, samples, nullptr), samples);
}

TEST(RealtimeMapTest, ErrorsOfReadingBendNothing) {
  const RealtimeMap map = MapOf({0, 40, -30, 25, 10});
  EXPECT_FALSE(map.has_steps());
  for (int64_t ns : {int64_t{0}, kS / 2, 3 * kS + 7, 100 * kS})
    EXPECT_EQ(map.ToNs(kOffset + ns), ns - 10) << "the samples' middle";
}

TEST(RealtimeMapTest, ClocksThatDriftApartAreFollowed) {
  const RealtimeMap map = MapOf({0, 50'000, 100'000});
  EXPECT_FALSE(map.has_steps());
  EXPECT_EQ(map.ToNs(kOffset - kS), -kS);
  EXPECT_NEAR(static_cast<double>(map.ToNs(kOffset + kS / 2 + 25'000) - kS / 2), 0, 10);
  EXPECT_EQ(map.ToNs(kOffset + 9 * kS + 100'000), 9 * kS);
}

TEST(RealtimeMapTest, AStepForwardsSkipsTimes) {
  const RealtimeMap map = MapOf({0, 0, 5 * kS, 5 * kS});
  EXPECT_TRUE(map.has_steps());
  EXPECT_THAT(map.Moments(kOffset + kS / 2), ElementsAre(kS / 2));
  EXPECT_THAT(map.Moments(kOffset + 15 * kS / 10), ElementsAre(15 * kS / 10)) << "before the step, whenever it was";
  EXPECT_THAT(map.Moments(kOffset + 65 * kS / 10), ElementsAre(15 * kS / 10)) << "after it";
  EXPECT_THAT(map.Moments(kOffset + 9 * kS), ElementsAre(4 * kS));
  EXPECT_THAT(map.Moments(kOffset + 21 * kS / 10), ElementsAre(21 * kS / 10)) << "there was no such time; the nearest";
}

TEST(RealtimeMapTest, ASmallStepForwardsLeavesTwoMoments) {
  const RealtimeMap map = MapOf({0, 0, kS / 10, kS / 10});
  EXPECT_THAT(map.Moments(kOffset + 15 * kS / 10), ElementsAre(14 * kS / 10, 15 * kS / 10));
}

TEST(RealtimeMapTest, AStepBackwardsRepeatsTimes) {
  const RealtimeMap map = MapOf({0, 0, 0, -2 * kS, -2 * kS});
  EXPECT_THAT(map.Moments(kOffset + 15 * kS / 10), ElementsAre(15 * kS / 10, 35 * kS / 10));
  EXPECT_THAT(map.Moments(kOffset - kS), ElementsAre(-kS));
}

TEST(RealtimeMapTest, SamplesThatCanNotBeTrueDoNoHarm) {
  std::vector<int64_t> wild;
  for (int i = 0; i < 500; ++i) wild.push_back(i % 2 == 0 ? 0 : 3 * kS);
  const RealtimeMap map = MapOf(wild);
  EXPECT_LE(map.Moments(kOffset + 250 * kS).size(), 64u);
  EXPECT_FALSE(RealtimeMap(ClockMap(), {}).has_clock());
}

}  // namespace
}  // namespace dlhook::analyzer
