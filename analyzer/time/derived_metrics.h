// Metrics computed from sums of counters: instructions per cycle, misses per thousand instructions, Top-Down shares … A
// table of formulas, each with the counters that it needs and its source.
#pragma once

#include "absl/functional/function_ref.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline time {

// A further input besides the names of counters (preload/counters/counter_names.h): wall time in ns.
inline constexpr absl::string_view kWallShare = "wall-share";

// The sum of the named counter over a row; nullopt: not counted.
using AmountOf = absl::FunctionRef<std::optional<double>(absl::string_view)>;

// A line of the table. Several lines may have the same name, because processors count different events for the same
// metric. The first one with a value applies.
struct DerivedMetric {
  absl::string_view name;  // of the column: "ipc"
  absl::string_view unit;  // of the column
  Better better;
  std::vector<absl::string_view> needs;      // counters, or kWallShare; "a|b": the first of these that was counted
  double (*compute)(const double* amounts);  // of `needs`, in that order; not finite: unknown
  absl::string_view explanation;             // one sentence for the user
  absl::string_view source;                  // of the formula, if it is more than the ratio that its explanation states

  // nullopt: a counter was not counted (also looked up as "NAME:u"), or the divisor is zero.
  std::optional<double> Of(AmountOf amount_of) const;
  // Whether all its inputs were counted.
  bool HasInputs(AmountOf amount_of) const;
};
const std::vector<DerivedMetric>& DerivedMetrics();

}  // namespace dlhook::analyzer::time
