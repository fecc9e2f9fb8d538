// Divides counts of threads among the activities of these threads.
//
// What a thread counts between two readings is spread evenly over the time between them, and assigned to the thread's
// activities in that time (thread_activity.h; a thread that sleeps in an activity counts nothing there, as readings at
// its boundaries show). While the thread is in no known activity, and for a thread without recorded calls (a worker of
// a thread pool), counts are assigned to what the process does at that time, as time_division.h divides it: an
// estimate. If nothing is known, they are unattributed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/time/counter_timeline.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

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
