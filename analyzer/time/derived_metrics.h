// What sums of counters mean: instructions per cycle, misses per kilo-instruction, Top-Down shares … A table of
// formulas, each with the counters that it needs and where it comes from. Pure.
#ifndef DLHOOK_ANALYZER_TIME_DERIVED_METRICS_H_
#define DLHOOK_ANALYZER_TIME_DERIVED_METRICS_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline time {

// Beside counters' names (preload/counters/counter_names.h): the wall time of what is looked at, in ns.
inline constexpr absl::string_view kWallShare = "wall-share";

// The sum of the counter of this name over what is looked at (a row); nullopt: it was not counted.
using AmountOf = absl::FunctionRef<std::optional<double>(absl::string_view)>;

// A line of the table. Several, not side by side, may have one name: other processors count other events for the same.
// The first of them with a value counts.
struct DerivedMetric {
  absl::string_view name;  // of a column: "ipc"
  absl::string_view unit;  // as columns have them
  Better better;
  std::vector<absl::string_view> needs;      // counters, or kWallShare; "a|b": the first of them that was counted
  double (*compute)(const double* amounts);  // of `needs`, in their order; not finite: can't be told
  absl::string_view explanation;             // one sentence for people
  absl::string_view source;                  // of the formula where it is more than a ratio that its explanation states

  // nullopt: a counter was not counted (also looked for as "NAME:u"), or there was nothing to divide by.
  std::optional<double> Of(AmountOf amount_of) const;
  // Whether all that it needs was counted.
  bool HasInputs(AmountOf amount_of) const;
};
const std::vector<DerivedMetric>& DerivedMetrics();

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_DERIVED_METRICS_H_
