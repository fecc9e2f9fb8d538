// Choice and calibration of the clock.
// Thread: whoever creates a session, and the drain.
#include "preload/format/clock.h"

#include <cpuid.h>
#include <fcntl.h>

#include "preload/format/identity.h"

namespace dlhook::inline format {
namespace {

bool TscIsInvariant() {
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & (1u << 8)) != 0;
}

// The kernel removes "tsc" from its list if it found the counters of two cores to differ or to be unsteady.
bool KernelListsTsc() {
  char text[256];
  ReadFileAt(AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/available_clocksource", text, sizeof text);
  return strstr(text, "tsc") != nullptr;
}

}  // namespace

bool JoinWithin(pthread_t thread, time_t seconds) {
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += seconds;
  return pthread_clockjoin_np(thread, nullptr, CLOCK_MONOTONIC, &deadline) == 0;
}

ClockKind ChooseClock(bool want_monotonic, const char** reason) {
  *reason = "";
  if (want_monotonic) {
    *reason = "DLHOOK_CLOCK=monotonic";
  } else if (!TscIsInvariant()) {
    *reason = "the processor's time-stamp counter is not invariant";
  } else if (!KernelListsTsc()) {
    *reason = "the kernel does not trust the time-stamp counter";
  } else {
    return ClockKind::kTsc;
  }
  return ClockKind::kMonotonic;
}

ClockSample TakeClockSample(ClockKind kind) {
  ClockSample best = {};
  best.uncertainty_ticks = UINT64_MAX;
  for (int attempt = 0; attempt < 4; ++attempt) {
    uint64_t before = ReadTicks(kind);
    uint64_t monotonic_ns = ClockNanoseconds(CLOCK_MONOTONIC);
    uint64_t realtime_ns = ClockNanoseconds(CLOCK_REALTIME);
    uint64_t after = ReadTicks(kind);
    uint64_t half = (after - before) / 2;
    if (half >= best.uncertainty_ticks) continue;
    best = {kind == ClockKind::kMonotonic ? monotonic_ns : before + half, monotonic_ns, realtime_ns, half};
  }
  return best;
}

uint64_t EstimateTicksPerSecond(ClockKind kind, const ClockSample& first, const ClockSample& last) {
  if (kind == ClockKind::kMonotonic) return 1000000000u;
  uint64_t elapsed_ns = last.monotonic_ns - first.monotonic_ns;
  if (last.monotonic_ns <= first.monotonic_ns || elapsed_ns < 10000) return 0;
  return static_cast<uint64_t>(static_cast<double>(last.ticks - first.ticks) * 1e9 / static_cast<double>(elapsed_ns));
}

}  // namespace dlhook::inline format
