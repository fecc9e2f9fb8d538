// The clock of all recorded times: the invariant time-stamp counter, else CLOCK_MONOTONIC.
// Thread: any. A read is 11 ns (TSC) or 27 ns; no system call.
#pragma once

#include <pthread.h>
#include <time.h>

#include "preload/proto_fields.h"

namespace dlhook::inline format {

using ClockKind = fields::Clock::Kind;

struct ClockSample {
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
  uint64_t uncertainty_ticks;
};

inline uint64_t ClockNanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline timespec TimespecOf(uint64_t ns) {
  return {static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
}

inline void SleepFor(uint64_t ns) {
  const timespec time = TimespecOf(ns);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// The compiler's own builtins: <x86intrin.h> is 54 000 lines, in each file of the shim.
inline uint64_t ReadTicks(ClockKind kind) {
  if (__builtin_expect(kind == ClockKind::kTsc, 1)) return __builtin_ia32_rdtsc();
  return ClockNanoseconds(CLOCK_MONOTONIC);
}

// Waits for the end of `thread`, using a clock that can't be set. False: it still runs.
bool JoinWithin(pthread_t thread, time_t seconds);

// Chooses the clock: TSC if the processor reports it as invariant and the kernel itself trusts it, unless
// `want_monotonic`. `reason` receives a static string if the result is not TSC.
ClockKind ChooseClock(bool want_monotonic, const char** reason);

// The best of several attempts: the one with the closest tick reads before and after.
ClockSample TakeClockSample(ClockKind kind);

// Rate between two samples; 0 if they are too close.
uint64_t EstimateTicksPerSecond(ClockKind kind, const ClockSample& first, const ClockSample& last);

}  // namespace dlhook::inline format
