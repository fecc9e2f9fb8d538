// How long a drain sleeps: depends on how full the rings are, and whether they grow.
#include "preload/drain/nap.h"

#include <gtest/gtest.h>

namespace dlhook {
namespace {

constexpr uint64_t kNoSample = UINT64_MAX;
constexpr long kMillisecond = 1000 * 1000;

long After(DrainNap* nap, int steps, uint32_t fullness, bool rings_grow = true, uint64_t to_sample_ns = kNoSample) {
  long ns = 0;
  for (int i = 0; i < steps; ++i) ns = nap->Next(fullness, rings_grow, to_sample_ns);
  return ns;
}

TEST(DrainNapTest, AnIdleDrainSleepsLongAndAFullRingShortensThatAtOnce) {
  DrainNap nap;
  EXPECT_LE(nap.Next(0, true, kNoSample), kMillisecond);
  EXPECT_EQ(After(&nap, 20, 0), 100 * kMillisecond);
  EXPECT_LE(nap.Next(256, true, kNoSample), kMillisecond);
}

TEST(DrainNapTest, SteadyCallsSettleBetweenAnEighthAndAFifthOfARing) {
  DrainNap nap;
  long ns = After(&nap, 20, 0);
  for (int i = 0; i < 50; ++i)
    ns = nap.Next(static_cast<uint32_t>(ns / kMillisecond * 2), true, kNoSample);  // 2/256 each millisecond
  EXPECT_GE(ns, 12 * kMillisecond);
  EXPECT_LE(ns, 25 * kMillisecond);
}

TEST(DrainNapTest, RingsThatDoNotGrowAreLookedAtMoreOften) {
  DrainNap nap;
  EXPECT_EQ(After(&nap, 20, 0, false), 8 * kMillisecond);
}

TEST(DrainNapTest, ASampleEndsANapAndOneThatIsSoonAfterIsWaitedFor) {
  DrainNap nap;
  After(&nap, 20, 0);
  EXPECT_EQ(nap.Next(0, true, 10 * kMillisecond), 10 * kMillisecond);
  EXPECT_EQ(nap.Next(0, true, 150 * kMillisecond), 150 * kMillisecond);
  EXPECT_EQ(nap.Next(0, true, 500 * kMillisecond), 100 * kMillisecond);
}

}  // namespace
}  // namespace dlhook
