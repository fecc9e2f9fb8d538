// Bounds of rows: sums of their calls'.
#include "analyzer/tables/bounds.h"

#include <algorithm>
#include <cmath>

#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {

void BoundSums::Add(const Op& op, const Bound& bound, double calls) {
  bound_ns += bound.ns * calls;
  by_kind_ns[static_cast<size_t>(bound.kind)] += bound.ns * calls;
  if (!op.flops || !op.bytes) return;
  flops += static_cast<double>(*op.flops) * calls;
  bytes += static_cast<double>(*op.bytes) * calls;
}

void BoundSums::AddOp(const Peaks* peaks, const Op& op, const OpTotals& totals, const GpuOpTime& gpu) {
  const auto calls = static_cast<double>(op.on_gpu ? gpu.executions : totals.calls - totals.nested_calls);
  if (peaks == nullptr || calls <= 0 || (!op.on_gpu && op.is_asynchronous)) return;
  const std::optional<Bound> bound = peaks->BoundOf(op);
  if (!bound) return;
  Add(op, *bound, calls);
  time_ns += static_cast<double>(op.on_gpu ? gpu.busy_ns : totals.total_ns);
}

BoundKind BoundSums::Kind() const {
  const auto* const most = std::max_element(by_kind_ns.begin(), by_kind_ns.end());
  return *most > 0 ? static_cast<BoundKind>(most - by_kind_ns.begin()) : BoundKind::kUnknown;
}

TypedColumns<BoundSums> BoundColumns(const TableOptions& options, int64_t steps) {
  if (options.peaks == nullptr || !options.peaks->IsKnown()) return {};
  return {
      {Detail(RealColumn("intensity", "FLOP/byte", Better::kNeither,
                         "Arithmetic intensity: operations per byte of the operands, each operand counted once.")),
       [](const BoundSums& sums) { return sums.bytes > 0 && sums.flops > 0 ? Cell(sums.flops / sums.bytes) : Cell(); }},
      {Detail(TextColumn(
           "bound",
           "What limits it on this machine: compute, memory, launch (starting it takes longer than its work), "
           "serial (too little work to divide among threads). Empty: the memory bandwidth is not known, or the calls "
           "took less time than that (see bound_percent).")),
       [](const BoundSums& sums) {
         return KnownText(BoundKindName(sums.IsBelow() ? BoundKind::kUnknown : sums.Kind()));
       }},
      {Detail(PercentColumn(
           "bound_percent", Better::kHigher,
           "The least time that this machine needs, as a percentage of the measured time. Empty where the "
           "calls took less: by an algorithm with fewer operations, or on a machine that is faster than "
           "its peaks say (measured while it was busy, or stated ones, which leave out turbo).")),
       [](const BoundSums& sums) {
         return sums.time_ns > 0 && !sums.IsBelow() ? Cell(100 * sums.bound_ns / sums.time_ns) : Cell();
       }},
      {Detail(TimeColumn("lost_time", "The measured time minus that least time.")),
       [steps](const BoundSums& sums) {
         if (sums.time_ns <= 0 || sums.IsBelow()) return Cell();
         return Cell(static_cast<int64_t>(std::llround((sums.time_ns - sums.bound_ns) / static_cast<double>(steps))));
       }},
  };
}

void AddBoundNotes(const TableOptions& options, Table* table) {
  if (options.peaks == nullptr || table->rows.empty()) return;
  table->notes.insert(table->notes.end(), options.peaks->notes().begin(), options.peaks->notes().end());
}

}  // namespace dlhook::analyzer::tables
