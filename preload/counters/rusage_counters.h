// Counters from getrusage, by name. CPU time comes from the scheduler's clock instead: getrusage's advances only at the
// scheduler's ticks while the thread runs (4 ms at 250 Hz).
// Thread: any. At most two system calls.
#pragma once

#include <sys/resource.h>

#include "preload/format/clock.h"

namespace dlhook::inline counters {

enum class UsageField : uint8_t {
  kNone,
  kTaskClock,
  kMinorFaults,
  kMajorFaults,
  kFaults,
  kVoluntarySwitches,
  kInvoluntarySwitches,
  kSwitches,
  kMigrations  // only from /proc
};

struct Usage {
  uint64_t task_clock_ns;
  uint64_t minor_faults;
  uint64_t major_faults;
  uint64_t voluntary_switches;
  uint64_t involuntary_switches;
  uint64_t migrations;
};

// In the order of UsageField: a name, and what it is the sum of.
struct UsageCounter {
  const char* name;
  uint64_t Usage::*first;
  uint64_t Usage::*second = nullptr;
};
constexpr UsageCounter kUsageCounters[] = {
    {"task-clock", &Usage::task_clock_ns},
    {"minor-faults", &Usage::minor_faults},
    {"major-faults", &Usage::major_faults},
    {"page-faults", &Usage::minor_faults, &Usage::major_faults},
    {"voluntary-switches", &Usage::voluntary_switches},
    {"involuntary-switches", &Usage::involuntary_switches},
    {"context-switches", &Usage::voluntary_switches, &Usage::involuntary_switches},
    {"cpu-migrations", &Usage::migrations}};

inline UsageField UsageFieldOf(const char* name) {
  for (size_t i = 0; i < sizeof kUsageCounters / sizeof *kUsageCounters; ++i) {
    if (strcmp(kUsageCounters[i].name, name) == 0) return static_cast<UsageField>(i + 1);
  }
  return UsageField::kNone;
}

inline uint64_t FieldOf(const Usage& usage, UsageField field) {
  if (field == UsageField::kNone) return 0;
  const UsageCounter& counter = kUsageCounters[static_cast<size_t>(field) - 1];
  return usage.*counter.first + (counter.second == nullptr ? 0 : usage.*counter.second);
}

// For the calling thread (RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID) or the process, since its start. Values that are not
// wanted cost nothing and are 0. False if the kernel refuses.
inline bool ReadUsage(int who, clockid_t clock, bool wants_clock, bool wants_counts, Usage* usage) {
  *usage = {};
  timespec on_processor = {};
  if (wants_clock && clock_gettime(clock, &on_processor) != 0) return false;
  usage->task_clock_ns =
      static_cast<uint64_t>(on_processor.tv_sec) * 1000000000u + static_cast<uint64_t>(on_processor.tv_nsec);
  if (!wants_counts) return true;
  rusage counts;
  if (getrusage(static_cast<__rusage_who>(who), &counts) != 0) return false;
  usage->minor_faults = static_cast<uint64_t>(counts.ru_minflt);
  usage->major_faults = static_cast<uint64_t>(counts.ru_majflt);
  usage->voluntary_switches = static_cast<uint64_t>(counts.ru_nvcsw);
  usage->involuntary_switches = static_cast<uint64_t>(counts.ru_nivcsw);
  return true;
}

}  // namespace dlhook::inline counters
