// The JAX tap's windows: how long they are, and when the next one comes.
#include "preload/tap/jax_windows.h"

#include <gtest/gtest.h>

namespace dlhook {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr size_t kMiB = 1 << 20;

TEST(JaxWindowsTest, AreAsLongAsTheResultIsSmall) {
  WindowPlan plan;
  EXPECT_EQ(plan.window_ns, 100 * kMs);
  PlanNextWindow(kMiB / 4, 100 * kMs, 0, &plan);
  EXPECT_EQ(plan.window_ns, 400 * kMs);
  PlanNextWindow(kMiB / 4, 1000 * kMs, 0, &plan);
  EXPECT_EQ(plan.window_ns, 2000 * kMs);
  PlanNextWindow(kMiB * 100, 1000 * kMs, 0, &plan);
  EXPECT_EQ(plan.window_ns, 100 * kMs);
  PlanNextWindow(0, 1000 * kMs, 0, &plan);
  EXPECT_EQ(plan.window_ns, 2000 * kMs);
}

// Longer operations inside, and a busy processor while it stops: below 1 % on average.
TEST(JaxWindowsTest, PausesAreLongAndGrow) {
  WindowPlan plan;
  const uint64_t cost_ns = kMiB * 40 + 150 * kMs;
  uint64_t last_ns = 0;
  for (int window = 1; window <= 1000; ++window) {
    PlanNextWindow(kMiB, 400 * kMs, 150 * kMs, &plan);
    EXPECT_GE(plan.pause_ns, window < 4 ? 25 * cost_ns : 100 * cost_ns);
    EXPECT_GE(plan.pause_ns, last_ns);
    last_ns = plan.pause_ns;
  }
  EXPECT_EQ(last_ns, 600'000 * kMs);
}

TEST(JaxWindowsTest, WhereLittleRanLittleIsPaidFor) {
  WindowPlan plan;
  PlanNextWindow(900, 100 * kMs, 20 * kMs, &plan);
  EXPECT_EQ(plan.pause_ns, 500 * kMs);
  PlanNextWindow(kMiB, 100 * kMs, 0, &plan);
  EXPECT_EQ(plan.pause_ns, kMiB * 40 * 25);
}

}  // namespace
}  // namespace dlhook
