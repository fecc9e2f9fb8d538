// What threads were doing when the launcher looked: whether they ran, had no processor or were blocked, and in which
// activity they were. A row of time is divided by the looks that met it: any time that is short, but comes often.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/thread_states.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

// What a share by looks may be, with 95 % certainty.
struct LookRange {
  int64_t least_ns, most_ns;
};

// What looks stand for: the time since the one before.
struct LookSums {
  int64_t looks = 0;
  int64_t running_ns = 0;
  int64_t queued_ns = 0;
  int64_t blocked_ns = 0;
  std::array<int64_t, kBlockedIns> found_ns = {};

  void Add(const LookSums& other);
  // The part of a row's time; empty: too few looks. Of a thread that was not there for much of that time: of what its looks
  // stand for.
  std::optional<int64_t> BlockedOf(int64_t ns) const { return PartOf(blocked_ns, ns); }
  std::optional<int64_t> QueuedOf(int64_t ns) const { return PartOf(queued_ns, ns); }
  // As if each look met the thread at random: Wilson's score interval. Only where BlockedOf is known.
  LookRange BlockedRangeOf(int64_t ns) const;

 private:
  std::optional<int64_t> PartOf(int64_t part_ns, int64_t ns) const;
  double CoveredOf(int64_t ns) const;
};

// Of looks at the thread in these times.
LookSums LooksIn(const ThreadStates& states, const IntervalSet& times);

struct StateLook {
  TimePiece piece;  // what the thread was in; start_ns: when
  LookSums sums;
};

class StateLooks {
 public:
  explicit StateLooks(const TraceModel& model);

  // By time. Only of threads that have a part of the time then. If nothing is known of a time and the process has one
  // thread that records, it is this thread's, if it is the process's first or only one.
  const std::vector<StateLook>& Of(ProcessIndex process) const { return of_[process]; }

 private:
  std::vector<std::vector<StateLook>> of_;  // by process
};

}  // namespace dlhook::analyzer::time
