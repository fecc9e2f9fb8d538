// Divides counts of threads among the activities of these threads.
//
// What a thread counts between two readings is spread evenly over the time between them, and assigned to the thread's
// activities in that time (thread_activity.h; a thread that sleeps in an activity counts nothing there, as readings at
// its boundaries show). While the thread is in no known activity, and for a thread without recorded calls (a worker of
// a thread pool), counts are assigned to what the process does at that time, as time_division.h divides it: an
// estimate. If nothing is known, they are unattributed.
#pragma once

#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

// Counts of threads by interval: the readings of a run without duplicates, scaled for the time in which a group had no
// registers.
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

// A part of the counts; of its wall share each instant is in one piece only. Amounts are not whole numbers; over all pieces
// they add up to the timelines' (RoundToSum restores whole numbers).
struct CountedPiece : TimePiece {
  bool is_estimated = false;         // counted by another thread than the one in this activity
  bool is_of_other_threads = false;  // unattributed, and counted by threads without recorded calls
  absl::Span<const CounterIndex> counters;
  absl::Span<const double> amounts;  // of each of these
};

// Calls `take` for everything that one process counted; pieces are cut at `boundaries` (ascending). Wall shares refer
// to the time of the process.
void DivideCounters(const TraceModel& model, const CountedRun& run, ProcessIndex process,
                    const std::vector<int64_t>& boundaries, const std::function<void(const CountedPiece&)>& take);

// Whole numbers that add up to `sum` and differ from the parts by less than one, provided that the parts add up to it
// except for rounding.
std::vector<int64_t> RoundToSum(const std::vector<double>& parts, int64_t sum);

}  // namespace dlhook::analyzer::time
