// Divides the wall time of a run among its calls: computes RunTotals.wall_share_ns.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

struct WallShares {
  std::vector<int64_t> op_ns;  // per op; with idle_ns they add up to model.wall_ns() exactly
  int64_t idle_ns = 0;         // time without active calls
  // When that was: intervals [start, end), in order. Only if the run has aggregates, which divide it.
  std::vector<std::pair<int64_t, int64_t>> idle;
};

// For model.calls alone, without aggregates.
WallShares SweepWall(const TraceModel& model);

// Assigns a part of the idle time in their windows to aggregates, adding it to `op_ns`. Returns the total.
//
// An aggregate says how long calls were active in its window, not when. Exact calls keep their share; the total of a
// thread's aggregates is spread evenly over the idle rest of the window, and threads are assumed to be independent: if
// one is active for 1/2 and another for 1/2, 3/4 of an instant are covered, and divided in proportion. Only calls that
// were not nested count: the others are part of their time.
int64_t ShareIdleTime(const TraceModel& model, const std::vector<std::pair<int64_t, int64_t>>& idle,
                      std::vector<int64_t>* op_ns);

}  // namespace dlhook::analyzer::model
