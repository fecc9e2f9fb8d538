#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

Cell MeanOf(const std::optional<int64_t>& ns, int64_t steps) { return ns ? Mean(*ns, steps) : Cell(); }

}  // namespace

Column TextColumn(absl::string_view name, absl::string_view explanation) {
  return {std::string(name), "", ColumnType::kText, Better::kNeither, std::string(explanation)};
}

Column IntegerColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation) {
  return {std::string(name), std::string(unit), ColumnType::kInteger, better, std::string(explanation)};
}

Column TimeColumn(absl::string_view name, absl::string_view explanation) {
  return IntegerColumn(name, "ns", Better::kLower, explanation);
}

Column NumberColumn(absl::string_view name, absl::string_view explanation) {
  return IntegerColumn(name, "", Better::kNeither, explanation);
}

Column RealColumn(absl::string_view name, absl::string_view unit, Better better, absl::string_view explanation) {
  return {std::string(name), std::string(unit), ColumnType::kReal, better, std::string(explanation)};
}

Column PercentColumn(absl::string_view name, Better better, absl::string_view explanation) {
  return RealColumn(name, "%", better, explanation);
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

bool HasRanks(const TraceModel& model) {
  return absl::c_any_of(model.processes, [](const ProcessInfo& process) { return !RankOf(process).empty(); });
}

Column ProcessColumn(bool are_several) {
  Column column = NumberColumn("process", "Process id.");
  column.detail = !are_several;
  return column;
}

Column CallsColumn(absl::string_view explanation) {
  return As(Role::kAmount, IntegerColumn("calls", "", Better::kLower, explanation));
}

Column TotalTimeColumn() {
  return TimeColumn("total_time", "Thread time: sum of the durations of these calls over all threads.");
}

Column MeanTimeColumn() { return TimeColumn("mean_time", "Total time divided by calls."); }

Column WallShareColumn() {
  Column column = TimeColumn(
      "wall_share",
      "Every instant of the run is divided equally among the calls active at it; this is these calls' part.");
  column.detail = true;  // wall_percent shows the same
  return As(Role::kWeight, column);
}

Column WallPercentColumn() {
  return PercentColumn("wall_percent", Better::kLower, "Wall share as a part of the run's time.");
}

Column RateColumn() {
  return RealColumn(
      "rate", "GFLOP/s", Better::kHigher,
      "FLOPs of all calls over their total time; not known of calls that return before the work is done.");
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

Cell Rate(const std::optional<int64_t>& amount, int64_t calls, int64_t total_ns) {
  if (!amount || total_ns <= 0) return std::monostate();
  return static_cast<double>(*amount) * static_cast<double>(calls) / static_cast<double>(total_ns);
}

TypedColumns<LookRow> LookColumns() {
  return {
      {TimeColumn("blocked"),
       "Time blocked (not runnable), estimated from thread-state samples; not known with fewer than 10.",
       [](const LookRow& row) { return MeanOf(row.looks.BlockedOf(row.total_ns), row.steps); }},
      {Detail(TimeColumn("no_processor")), "Time runnable, waiting for a CPU.",
       [](const LookRow& row) { return MeanOf(row.looks.QueuedOf(row.total_ns), row.steps); }},
      {Detail(TextColumn("blocked_in")), "What it was blocked in (thread-state samples), as in the table threads.",
       [](const LookRow& row) {
         const bool is_told = row.looks.BlockedOf(row.total_ns).value_or(0) > 0;
         return is_told ? Cell(BlockedInText(row.looks.found_ns)) : Cell();
       }},
      {Detail(NumberColumn("looks")), "Number of thread-state samples behind this row.",
       [](const LookRow& row) { return row.looks.looks; }},
  };
}

std::string LookNote() {
  return "Blocked: estimated from thread-state samples. A part with n samples (column looks) is uncertain by up to "
         "half of 1 / sqrt(n) of the row.";
}

void SayWhyNone(const TraceModel& model, absl::string_view capability, Table* table) {
  for (const ProcessInfo& process : model.processes) {
    for (const Capability& known : process.capabilities) {
      if (!table->rows.empty() || !table->notes.empty() || known.name != capability || known.reason.empty()) continue;
      if (known.state != CapabilityState::kOn) table->Note("None: ", known.reason, ".");
    }
  }
}

}  // namespace dlhook::analyzer::tables
