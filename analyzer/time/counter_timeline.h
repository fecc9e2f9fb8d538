// What threads counted, interval by interval: the readings of a run without what is in them twice, and with what shared registers
// did not see made good.
#ifndef DLHOOK_ANALYZER_TIME_COUNTER_TIMELINE_H_
#define DLHOOK_ANALYZER_TIME_COUNTER_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

using CounterIndex = uint32_t;  // of CountedRun::counters

// Intervals of one thread, ascending and disjoint, none empty, and what it counted in each.
struct CounterTimeline {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: one that made no recorded call
  uint32_t tid = 0;
  std::vector<CounterIndex> counters;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
  std::vector<int64_t> amounts;  // counters.size() an interval
  size_t size() const { return start_ns.size(); }
  absl::Span<const int64_t> AmountsOf(size_t interval) const {
    return {amounts.data() + interval * counters.size(), counters.size()};
  }
};

// A process as a whole, with threads that no reading met. By CounterIndex.
struct ProcessCounts {
  std::vector<int64_t> amount;
  std::vector<bool> is_known;
};

struct CountedRun {
  std::vector<NameIndex> counters;  // distinct, in the order in which they are met
  std::vector<CounterTimeline> timelines;
  std::vector<ProcessCounts> processes;  // by ProcessIndex
  // Of groups that shared registers: the times in which they had them, and in which they should have.
  int64_t running_ns = 0;
  int64_t enabled_ns = 0;
};

// Where a thread has a counter in several series, that one counts which was read at boundaries of scopes, else the first; between
// its first and its last reading the others do not, outside of these they go on: from the value of the one on, where both count since
// the thread began. A reading is left out if the group had no registers since the one before: the next one tells of both intervals.
// Readings of thread 0 and tid 0 are the process's.
CountedRun ReadCounters(const TraceModel& model);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_COUNTER_TIMELINE_H_
