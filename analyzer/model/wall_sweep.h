// Divides the wall time of a run among its calls: the sweep behind RunTotals.wall_share_ns.
#ifndef DLHOOK_ANALYZER_MODEL_WALL_SWEEP_H_
#define DLHOOK_ANALYZER_MODEL_WALL_SWEEP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

struct WallShares {
  std::vector<int64_t> op_ns;  // nanoseconds per op; with idle_ns they add up to model.wall_ns() exactly
  int64_t idle_ns = 0;         // in which no call was active
  // When that was: intervals [start, end), in order. Only where the run has aggregates, among which they are divided.
  std::vector<std::pair<int64_t, int64_t>> idle;
};

// Of model.calls alone, without aggregates.
WallShares SweepWall(const TraceModel& model);

// Gives the time that aggregates stand for a part of the idle time in their windows, added to
// `op_ns`. Returns how much in all.
//
// An aggregate says how long calls were active in its window, not when. Where exact calls were
// active too, those keep their share; what the aggregates of a thread sum up to is spread evenly
// over the idle rest of the window, and threads are taken to be independent: of a moment of which
// one is active for 1/2 and another for 1/2, 3/4 are covered, and divided in proportion. Only calls
// that were not nested count: the others are inside their time.
int64_t ShareIdleTime(const TraceModel& model, const std::vector<std::pair<int64_t, int64_t>>& idle,
                      std::vector<int64_t>* op_ns);

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_WALL_SWEEP_H_
