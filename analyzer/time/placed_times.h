// What a process did at given times: the pieces of time (time_division.h) that hold them.
#ifndef DLHOOK_ANALYZER_TIME_PLACED_TIMES_H_
#define DLHOOK_ANALYZER_TIME_PLACED_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

struct TimeOfThread {
  int64_t time_ns = 0;
  ThreadIndex thread = kNone;
  size_t index = 0;  // the caller's
};

// Calls `take` for each, in order of time, with the parts of a piece of time around it, one for each thread that has one.
void ForEachPlace(const TraceModel& model, ProcessIndex process, std::vector<TimeOfThread> times,
                  absl::FunctionRef<void(const TimeOfThread&, absl::Span<const TimePiece>)> take);

// The thread's own part; null: it has none.
const TimePiece* PartOf(ThreadIndex thread, absl::Span<const TimePiece> parts);

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_PLACED_TIMES_H_
