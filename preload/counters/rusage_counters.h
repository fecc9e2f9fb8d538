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

inline UsageField UsageFieldOf(const char* name) {
  struct Name {
    const char* name;
    UsageField field;
  };
  static constexpr Name kNames[] = {
      {"task-clock", UsageField::kTaskClock},
      {"minor-faults", UsageField::kMinorFaults},
      {"major-faults", UsageField::kMajorFaults},
      {"page-faults", UsageField::kFaults},
      {"voluntary-switches", UsageField::kVoluntarySwitches},
      {"involuntary-switches", UsageField::kInvoluntarySwitches},
      {"context-switches", UsageField::kSwitches},
      {"cpu-migrations", UsageField::kMigrations},
  };
  for (const Name& known : kNames) {
    if (strcmp(known.name, name) == 0) return known.field;
  }
  return UsageField::kNone;
}

struct Usage {
  uint64_t task_clock_ns;
  uint64_t minor_faults;
  uint64_t major_faults;
  uint64_t voluntary_switches;
  uint64_t involuntary_switches;
  uint64_t migrations;
};

inline uint64_t FieldOf(const Usage& usage, UsageField field) {
  switch (field) {
    case UsageField::kTaskClock:
      return usage.task_clock_ns;
    case UsageField::kMinorFaults:
      return usage.minor_faults;
    case UsageField::kMajorFaults:
      return usage.major_faults;
    case UsageField::kFaults:
      return usage.minor_faults + usage.major_faults;
    case UsageField::kVoluntarySwitches:
      return usage.voluntary_switches;
    case UsageField::kInvoluntarySwitches:
      return usage.involuntary_switches;
    case UsageField::kSwitches:
      return usage.voluntary_switches + usage.involuntary_switches;
    case UsageField::kMigrations:
      return usage.migrations;
    default:
      return 0;
  }
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
