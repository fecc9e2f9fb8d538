// Totals per op, of calls and of aggregates (see RunTotals in trace_model.h).
#include <algorithm>

#include "analyzer/model/same_work.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/model/wall_sweep.h"

namespace dlhook::analyzer::inline model {
namespace {

void AddRange(OpTotals* totals, int64_t min_ns, int64_t max_ns) {
  totals->min_ns = totals->calls == 0 ? min_ns : std::min(totals->min_ns, min_ns);
  totals->max_ns = std::max(totals->max_ns, max_ns);
}

void AddCalls(const TraceModel& model, RunTotals* totals) {
  const CallColumns& calls = model.calls;
  const SameWork same_work(model);
  for (size_t i = 0; i < calls.size(); ++i) {
    OpTotals& op = totals->ops[calls.op[i]];
    const int64_t duration_ns = calls.duration_ns[i];
    AddRange(&op, duration_ns, duration_ns);
    ++op.calls;
    op.self_ns += calls.self_ns[i];
    if (calls.parent[i] == kNone) {
      totals->thread_time_ns += duration_ns;
      op.total_ns += duration_ns;
    } else if (same_work.Outermost(static_cast<CallIndex>(i)) == i) {
      op.total_ns += duration_ns;
    }
    if (same_work.IsNested(static_cast<CallIndex>(i))) ++op.nested_calls;
  }
}

// For nested calls, an aggregate does not say inside which call they ran. Their time is part of that call's, so only
// the time of the others counts: as total, self (of the outer call) and thread time.
void AddAggregates(const TraceModel& model, RunTotals* totals) {
  for (const AggregateRow& row : model.aggregates) {
    OpTotals& op = totals->ops[row.op];
    const int64_t outer_ns = row.sum_ns - row.nested_sum_ns;
    AddRange(&op, row.min_ns, row.max_ns);
    op.calls += row.count;
    op.nested_calls += row.nested_count;
    op.total_ns += outer_ns;
    op.self_ns += outer_ns;
    totals->thread_time_ns += outer_ns;
  }
}

}  // namespace

RunTotals ComputeTotals(const TraceModel& model) {
  RunTotals totals;
  totals.ops.resize(model.ops.size());
  AddCalls(model, &totals);
  AddAggregates(model, &totals);
  WallShares shares = SweepWall(model);
  totals.unattributed_ns = shares.idle_ns - ShareIdleTime(model, shares.idle, &shares.op_ns);
  for (size_t op = 0; op < model.ops.size(); ++op) totals.ops[op].wall_share_ns = shares.op_ns[op];
  totals.in_library_wall_ns = model.wall_ns() - totals.unattributed_ns;
  return totals;
}

}  // namespace dlhook::analyzer::model
