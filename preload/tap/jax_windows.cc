#include "preload/tap/jax_windows.h"

namespace dlhook::inline tap {
namespace {

constexpr uint64_t kShortestNs = 100'000'000, kLongestNs = 2'000'000'000;
constexpr uint64_t kMostBytes = 1 << 20;
constexpr size_t kIdleBytes = 4096;  // fewer: nothing ran, as while the program compiles
constexpr uint64_t kShortestPauseNs = 500'000'000, kLongestPauseNs = 600'000'000'000;
constexpr uint64_t kNsPerByte = 40;      // by which the operations of a window were longer; measured: 10 to 40
constexpr uint64_t kCostsOfPause = 100;  // below 1 % on average

uint64_t Between(uint64_t least, uint64_t value, uint64_t most) {
  return value < least ? least : value > most ? most : value;
}

}  // namespace

void PlanNextWindow(size_t bytes, uint64_t window_ns, uint64_t stop_ns, WindowPlan* plan) {
  uint64_t next_ns = bytes == 0 ? window_ns * 2 : window_ns * kMostBytes / bytes;
  plan->window_ns = Between(kShortestNs, next_ns, kLongestNs);
  uint64_t cost_ns = bytes * kNsPerByte + stop_ns;
  if (bytes >= kIdleBytes) ++plan->windows;
  plan->pause_ns = Between(kShortestPauseNs, cost_ns * kCostsOfPause / 4 * plan->windows, kLongestPauseNs);
}

}  // namespace dlhook::inline tap
