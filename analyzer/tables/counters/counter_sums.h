// Sums of counters by row, whole numbers again, and their columns: what the tables of counters share.
#ifndef DLHOOK_ANALYZER_TABLES_COUNTERS_COUNTER_SUMS_H_
#define DLHOOK_ANALYZER_TABLES_COUNTERS_COUNTER_SUMS_H_

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
#include "analyzer/time/counter_timeline.h"
#include "analyzer/time/derived_metrics.h"

namespace dlhook::analyzer::inline tables {

// "L1-dcache-load-misses" -> "l1_dcache_load_misses".
std::string CounterColumnName(absl::string_view counter);

class CounterSums {
 public:
  struct RowSums {
    std::vector<double> amounts;  // by CounterIndex
    std::vector<int64_t> counts;  // the same as whole numbers: of all rows they add up to what was counted
    double own_time_ns = 0;       // of threads whose running time is counted, in activities of their own
    double own_running_ns = 0;    // in which they ran
    double estimated = 0;         // of the lead counter
    int64_t share_ns = 0;
  };

  CounterSums(const TraceModel& model, const CountedRun& run);

  void Divide(CounterRows* rows);                              // all processes
  void ByThread();                                             // a row for each thread that counted
  size_t ThreadOf(size_t row) const { return threads_[row]; }  // of ByThread: its first timeline

  // Columns of every counter, of what follows from them, and of how they were found out; of a run without counters, those of the
  // software counters and all that could follow.
  TypedColumns<size_t> Columns(bool has_shares) const;  // of a row, or CounterRows::kRest

  const std::vector<RowSums>& rows() const { return sums_; }
  // What rows are sorted by: the counter that tells of time, or the first.
  int64_t LeadOf(size_t row) const { return sums_[row].counts.empty() ? 0 : sums_[row].counts[lead_]; }
  // Of the processes, where it is known of any: what no thread's readings have.
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
  CounterIndex clock_ = kNone;      // that counts the time in which a thread runs
  CounterIndex lead_ = 0;
  bool has_shares_ = true;
  std::vector<RowSums> sums_;
  std::vector<size_t> threads_;
};

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_COUNTERS_COUNTER_SUMS_H_
