// Counts of threads by interval: the readings of a run without duplicates, scaled for the time in which a group had no
// registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

using CounterIndex = uint32_t;  // of CountedRun::counters

// Ascending, disjoint, non-empty intervals of one thread, and what it counted in each.
struct CounterTimeline {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: a thread without recorded calls
  uint32_t tid = 0;
  std::vector<CounterIndex> counters;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
  std::vector<int64_t> amounts;  // counters.size() per interval
  size_t size() const { return start_ns.size(); }
  absl::Span<const int64_t> AmountsOf(size_t interval) const {
    return {amounts.data() + interval * counters.size(), counters.size()};
  }
};

// Counts of a process as a whole, including threads without readings. By CounterIndex.
struct ProcessCounts {
  std::vector<int64_t> amount;
  std::vector<bool> is_known;
};

struct CountedRun {
  std::vector<NameIndex> counters;  // distinct, in the order of appearance
  std::vector<CounterTimeline> timelines;
  std::vector<ProcessCounts> processes;  // by ProcessIndex
  // For groups that shared registers: the time in which they had registers, and the time in which they were enabled.
  int64_t running_ns = 0;
  int64_t enabled_ns = 0;
};

// If a thread has a counter in several series, the one that was read at boundaries of scopes applies, else the first.
// Between its first and last reading the others are ignored; outside they continue from its value, if both count from
// the start of the thread. A reading is ignored if the group had no registers since the previous one: the next reading
// covers both intervals. Readings with thread 0 and tid 0 belong to the process.
CountedRun ReadCounters(const TraceModel& model);

}  // namespace dlhook::analyzer::time
