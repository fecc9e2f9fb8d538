// Words that the tables share: see columns.h.
#include "analyzer/tables/columns.h"

#include <cmath>

namespace dlhook::analyzer::inline tables {

Column TextColumn(absl::string_view name, absl::string_view explanation) {
  return {std::string(name), "", ColumnType::kText, Better::kNeither, std::string(explanation)};
}

Column IntegerColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation) {
  return {std::string(name), std::string(unit), ColumnType::kInteger, better, std::string(explanation)};
}

Column TimeColumn(absl::string_view name, absl::string_view explanation) {
  return IntegerColumn(name, "ns", Better::kLower, explanation);
}

Column RealColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation) {
  return {std::string(name), std::string(unit), ColumnType::kReal, better, std::string(explanation)};
}

Column Detail(Column column) {
  column.detail = true;
  return column;
}

Column As(Role role, Column column) {
  column.role = role;
  return column;
}

Column Within(Range range, Column column) {
  column.range = range;
  return column;
}

Column ProcessColumn(bool are_several) {
  Column column = IntegerColumn("process", "", Better::kNeither, "Process id.");
  column.detail = !are_several;
  return column;
}

Column CallsColumn(absl::string_view explanation) {
  return As(Role::kAmount, IntegerColumn("calls", "", Better::kLower, explanation));
}

Column TotalTimeColumn() {
  return IntegerColumn("total_time", "ns", Better::kLower,
                       "Thread time: sum of the durations of these calls over all threads.");
}

Column MeanTimeColumn() { return IntegerColumn("mean_time", "ns", Better::kLower, "Total time divided by calls."); }

Column WallShareColumn() {
  Column column = IntegerColumn("wall_share", "ns", Better::kLower,
                                "Every instant of the run is divided equally among the calls active at it; this is "
                                "these calls' part.");
  column.detail = true;  // wall_percent shows the same
  return As(Role::kWeight, column);
}

Column WallPercentColumn() {
  return RealColumn("wall_percent", "%", Better::kLower, "Wall share as a part of the run's time.");
}

Column RateColumn() {
  return RealColumn("rate", "GFLOP/s", Better::kHigher,
                    "FLOPs of all calls over their total time; not known of calls that return before the work is "
                    "done.");
}

Cell KnownText(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

Cell Percent(int64_t part, int64_t whole) {
  if (whole == 0) return std::monostate();
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

Cell Mean(int64_t sum, int64_t count) {
  if (count == 0) return std::monostate();
  return static_cast<int64_t>(std::llround(static_cast<double>(sum) / static_cast<double>(count)));
}

Cell OrUnknown(const std::optional<int64_t>& value) {
  if (!value) return std::monostate();
  return *value;
}

Cell Rate(const std::optional<int64_t>& amount, int64_t calls, int64_t total_ns) {
  if (!amount || total_ns <= 0) return std::monostate();
  return static_cast<double>(*amount) * static_cast<double>(calls) / static_cast<double>(total_ns);
}

}  // namespace dlhook::analyzer::tables
