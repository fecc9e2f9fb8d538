// Sums of counters by row, rounded to whole numbers, and their columns: shared by the tables of counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/time/counter_division.h"
#include "analyzer/time/derived_metrics.h"

namespace dlhook::analyzer::inline tables {

// "L1-dcache-load-misses" -> "l1_dcache_load_misses".
std::string CounterColumnName(absl::string_view counter);

class CounterSums {
 public:
  struct RowSums {
    std::vector<double> amounts;  // by CounterIndex
    std::vector<int64_t> counts;  // the same as whole numbers; over all rows they add up to what was counted
    double own_time_ns = 0;       // of threads whose running time is counted, without time spent in nested activities
    double own_running_ns = 0;    // part of it in which they ran
    double estimated = 0;         // of the counter that rows are sorted by
    int64_t share_ns = 0;
  };

  CounterSums(const TraceModel& model, const CountedRun& run);

  void Divide(CounterRows* rows);                              // all processes
  void ByThread();                                             // one row for each thread with counters
  size_t ThreadOf(size_t row) const { return threads_[row]; }  // after ByThread: its first timeline

  // Columns for each counter, for the metrics derived from them, and for how they were measured. A run without counters
  // has the columns of the software counters and all derived metrics.
  TypedColumns<size_t> Columns(bool has_shares) const;  // `row` or CounterRows::kRest

  const std::vector<RowSums>& rows() const { return sums_; }
  // The counter that rows are sorted by: the one that measures time, else the first.
  int64_t LeadOf(size_t row) const { return sums_[row].counts.empty() ? 0 : sums_[row].counts[lead_]; }
  // Whether any process has counts that no thread's reading covers.
  bool HasRest() const;
  std::vector<std::string> Notes() const;

 private:
  std::vector<CounterIndex> InReportOrder() const;
  RowSums& At(size_t row);
  bool TellsOfRunning(const CountedPiece& piece) const;
  void Take(size_t row, const CountedPiece& piece);
  void Round();
  Cell RunningPercent(const RowSums& sums) const;
  Cell Derived(const DerivedMetric& metric, const RowSums& sums) const;
  std::optional<double> AmountOf(const RowSums& sums, absl::string_view counter) const;
  std::optional<int64_t> RestOf(CounterIndex counter) const;
  std::string SumsNote() const;

  const TraceModel& model_;
  const CountedRun& run_;
  std::vector<std::string> names_;  // by CounterIndex
  std::vector<int64_t> totals_;     // of all timelines
  CounterIndex clock_ = kNone;      // the counter of running time
  CounterIndex lead_ = 0;
  bool has_shares_ = true;
  std::vector<RowSums> sums_;
  std::vector<size_t> threads_;
};

}  // namespace dlhook::analyzer::tables
