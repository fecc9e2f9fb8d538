// What threads counted, divided among what they did meanwhile.
//
// What a thread counts between two readings is spread evenly over the time between them, and belongs to what it does then
// (thread_activity.h; a thread that sleeps in an activity counts nothing there, which its readings at boundaries show). While it
// does nothing that is known, and of a thread that makes no recorded calls at all (a worker of a thread pool), it belongs to what
// the process is doing at that time, as time_division.h divides it: that is an estimate. Where nobody does anything that is
// known: to nobody.
#ifndef DLHOOK_ANALYZER_TIME_COUNTER_DIVISION_H_
#define DLHOOK_ANALYZER_TIME_COUNTER_DIVISION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/time/counter_timeline.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

// A part of what was counted. Amounts are not whole numbers: those of all pieces add up to the timelines' (RoundToSum makes sums
// whole again).
struct CountedPiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  ActivityKind kind = ActivityKind::kUnattributed;
  uint32_t index = kNone;            // as TimePiece.index
  ThreadIndex thread = kNone;        // whose activity it is; kNone: nobody's
  int64_t share_ns = 0;              // wall share; of each moment in one piece only
  bool is_estimated = false;         // counted by other threads than the one whose activity it is
  bool is_of_other_threads = false;  // nobody's, and counted by threads that made no recorded call
  absl::Span<const CounterIndex> counters;
  absl::Span<const double> amounts;  // of each of these
  UnseenGap gap = {};                // as TimePiece.gap
};

// Calls `take` for all that one process counted; pieces are cut at `boundaries` (ascending). Wall shares are of the process's time.
void DivideCounters(const TraceModel& model, const CountedRun& run, ProcessIndex process,
                    const std::vector<int64_t>& boundaries, const std::function<void(const CountedPiece&)>& take);

// Whole numbers that add up to `sum` and differ from the parts by less than one, if those add up to it but for rounding.
std::vector<int64_t> RoundToSum(const std::vector<double>& parts, int64_t sum);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_COUNTER_DIVISION_H_
