// Tables `counters` and `counters_over_time`: counters of the processor and the kernel, by what the program did.
#include <numeric>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/counter_division.h"
#include "analyzer/time/derived_metrics.h"
#include "preload/counters/counter_names.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Sums of counters by row, rounded to whole numbers, and their columns: shared by the tables of counters.

constexpr absl::string_view kClock = "task-clock";
constexpr double kMostSkew = 1.05;
constexpr size_t kCountersInText = 4;  // columns, including time
constexpr absl::string_view kSoftware[] = {"task-clock",         "minor-faults",         "major-faults",
                                           "voluntary-switches", "involuntary-switches", "cpu-migrations"};

constexpr char kShareExplanation[] =
    "Each instant of a process is divided equally among the threads that work in it; this is the row's part of the "
    "whole run.";
constexpr char kRunningExplanation[] =
    "Of the time that threads spent at it (workers without recorded calls aside) the part in which they ran on a "
    "processor; else they waited, for something or for a processor.";
constexpr char kEstimatedExplanation[] =
    "Part of the running time (else of the first counter) that other threads of the process counted: workers without "
    "recorded calls, given to what the process did meanwhile.";

// Ignores ":u" and ":k".
bool IsClock(absl::string_view counter) {
  return counter == kClock || absl::StartsWith(counter, absl::StrCat(kClock, ":"));
}

// "L1-dcache-load-misses" -> "l1_dcache_load_misses".
std::string CounterColumnName(absl::string_view counter) {
  std::string name;
  for (char c : counter) name += absl::ascii_isalnum(c) ? absl::ascii_tolower(c) : '_';
  return name;
}

Column CounterColumn(const std::string& counter) {
  const CounterLine* known = FindCounterLine(counter.c_str());
  const bool is_time = known != nullptr && UnitOf(*known) == CounterUnit::kNanoseconds;
  const std::string meaning = known != nullptr ? absl::StrCat(": ", known->meaning) : "";
  std::string explanation = absl::StrCat("Counter ", counter, meaning, ". Summed over the run.");
  return As(Role::kAmount,
            IntegerColumn(CounterColumnName(counter), is_time ? "ns" : "", Better::kLower, std::move(explanation)));
}

// The first of those with one name; the others are formulas for other processors.
std::vector<const DerivedMetric*> DistinctMetrics() {
  std::vector<const DerivedMetric*> metrics;
  for (const DerivedMetric& metric : DerivedMetrics()) {
    const bool is_new = absl::c_none_of(metrics, [&](const auto* known) { return known->name == metric.name; });
    if (is_new) metrics.push_back(&metric);
  }
  return metrics;
}

Cell PartOf(double part, double whole) { return whole > 0 ? Cell(100.0 * part / whole) : Cell(); }

void AppendColumns(TypedColumns<size_t> more, TypedColumns<size_t>* columns) {
  for (AnyColumn& typed : more.all()) {
    std::string& name = typed.column.name;
    if (columns->Find(name) != nullptr) name = absl::StrCat("counter_", name);
  }
  columns->Add(more);
}

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

  CounterSums(const TraceModel& model, const CountedRun& run) : model_(model), run_(run), totals_(run.counters.size()) {
    for (NameIndex name : run.counters) names_.push_back(model.names[name]);
    for (CounterIndex i = 0; i < names_.size(); ++i) {
      if (clock_ == kNone && IsClock(names_[i])) clock_ = i;
    }
    if (clock_ != kNone) lead_ = clock_;
    for (const CounterTimeline& timeline : run.timelines) {
      for (size_t i = 0; i < timeline.amounts.size(); ++i) {
        totals_[timeline.counters[i % timeline.counters.size()]] += timeline.amounts[i];
      }
    }
  }

  // Of all processes.
  void Divide(CounterRows* rows) {
    for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
      DivideCounters(model_, run_, process, rows->Boundaries(process),
                     [&](const CountedPiece& piece) { Take(rows->RowOf(process, piece), piece); });
    }
    Round();
  }

  // One row for each thread with counters.
  void ByThread() {
    has_shares_ = false;
    std::map<std::tuple<ProcessIndex, ThreadIndex, uint32_t>, size_t> numbers;
    for (size_t i = 0; i < run_.timelines.size(); ++i) {
      const CounterTimeline& timeline = run_.timelines[i];
      const auto [at, is_new] =
          numbers.emplace(std::tuple(timeline.process, timeline.thread, timeline.tid), threads_.size());
      if (is_new) threads_.push_back(i);
      RowSums& sums = At(at->second);
      for (size_t j = 0; j < timeline.amounts.size(); ++j) {
        const CounterIndex counter = timeline.counters[j % timeline.counters.size()];
        sums.amounts[counter] += static_cast<double>(timeline.amounts[j]);
        if (counter != clock_) continue;
        const size_t interval = j / timeline.counters.size();
        sums.own_time_ns += static_cast<double>(timeline.end_ns[interval] - timeline.start_ns[interval]);
        sums.own_running_ns += static_cast<double>(timeline.amounts[j]);
      }
    }
    Round();
  }

  size_t ThreadOf(size_t row) const { return threads_[row]; }  // after ByThread: its first timeline

  // Columns for each counter, for the metrics derived from them, and for how they were measured. A run without counters
  // has the columns of the software counters and all derived metrics. The items are rows, or CounterRows::kRest.
  TypedColumns<size_t> Columns(bool has_shares) const {
    TypedColumns<size_t> columns;
    const auto add = [&](Column column, auto get) {
      const std::string name = column.name;
      for (int i = 2; columns.Find(column.name) != nullptr; ++i) column.name = absl::StrCat(name, "_", i);
      columns.Add({std::move(column), std::move(get)});
    };
    // kRest has only counters.
    const auto of_row = [this](auto get) {
      return [this, get](size_t row) { return row == CounterRows::kRest ? Cell() : Cell(get(sums_[row])); };
    };
    const auto add_running = [&] {
      add(Within(Range::kMeasured, PercentColumn("running_percent", Better::kNeither, kRunningExplanation)),
          of_row([this](const RowSums& sums) { return RunningPercent(sums); }));
    };
    const auto add_counter = [&](const std::string& name, CounterIndex counter) {
      Column column = CounterColumn(name);
      column.detail = columns.all().size() >= kCountersInText;  // derived metrics say more
      add(std::move(column), [this, counter](size_t row) {
        return row == CounterRows::kRest ? OrUnknown(RestOf(counter)) : Cell(sums_[row].counts[counter]);
      });
    };
    if (has_shares) {
      add(As(Role::kWeight, TimeColumn("wall_share", kShareExplanation)),
          of_row([](const RowSums& sums) { return sums.share_ns; }));
    }
    if (clock_ == kNone) add_running();
    for (CounterIndex counter : InReportOrder()) {
      add_counter(names_[counter], counter);
      if (counter == clock_) add_running();
    }
    if (names_.empty()) {
      for (absl::string_view counter : kSoftware) add_counter(std::string(counter), kNone);
    }
    for (const DerivedMetric* metric : DistinctMetrics()) {
      Column column = RealColumn(std::string(metric->name), std::string(metric->unit), metric->better,
                                 absl::StrCat(metric->explanation, "."));
      column.detail = absl::EndsWith(metric->name, "_per_s");
      add(Within(Range::kMeasured, std::move(column)),
          of_row([this, metric](const RowSums& sums) { return Derived(*metric, sums); }));
    }
    add(PercentColumn("estimated_percent", Better::kNeither, kEstimatedExplanation),
        of_row([this](const RowSums& sums) {
          return PartOf(sums.estimated, names_.empty() || !has_shares_ ? 0 : sums.amounts[lead_]);
        }));
    return columns;
  }

  const std::vector<RowSums>& rows() const { return sums_; }
  // The counter that rows are sorted by: the one that measures time, else the first.
  int64_t LeadOf(size_t row) const { return sums_[row].counts.empty() ? 0 : sums_[row].counts[lead_]; }

  // Whether any process has counts that no thread's reading covers.
  bool HasRest() const {
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      if (RestOf(counter).value_or(0) != 0) return true;
    }
    return false;
  }

  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    if (names_.empty()) {
      notes.push_back(
          "No counters were read. Run again with DLHOOK_COUNTERS=software (`dlhook counters` says what this machine "
          "can "
          "count).");
      return notes;
    }
    notes.push_back(SumsNote());
    if (run_.enabled_ns > 0 && run_.running_ns < run_.enabled_ns) {
      notes.push_back(absl::StrFormat(
          "Counters shared the processor's registers: they were counted in %.0f %% of the time, and scaled.",
          100.0 * static_cast<double>(run_.running_ns) / static_cast<double>(run_.enabled_ns)));
    }
    return notes;
  }

 private:
  // The time counter first.
  std::vector<CounterIndex> InReportOrder() const {
    std::vector<CounterIndex> order;
    if (clock_ != kNone) order.push_back(clock_);
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      if (counter != clock_) order.push_back(counter);
    }
    return order;
  }

  RowSums& At(size_t row) {
    if (row >= sums_.size()) sums_.resize(row + 1);
    sums_[row].amounts.resize(names_.size());
    return sums_[row];
  }

  // In scopes in which threads mostly wait (time_division.h), a thread that does not run says nothing about the row.
  bool TellsOfRunning(const CountedPiece& piece) const {
    if (piece.is_estimated || piece.kind == ActivityKind::kUnattributed) return false;
    return piece.kind != ActivityKind::kScope || !FactsOf(model_.scopes.look[piece.index].kind).is_wait;
  }

  void Take(size_t row, const CountedPiece& piece) {
    RowSums& sums = At(row);
    sums.share_ns += piece.share_ns;
    for (size_t j = 0; j < piece.counters.size(); ++j) {
      const CounterIndex counter = piece.counters[j];
      sums.amounts[counter] += piece.amounts[j];
      if (piece.is_estimated && counter == lead_) sums.estimated += piece.amounts[j];
      if (counter == clock_ && TellsOfRunning(piece)) {
        sums.own_time_ns += static_cast<double>(piece.end_ns - piece.start_ns);
        sums.own_running_ns += piece.amounts[j];
      }
    }
  }

  void Round() {
    for (RowSums& sums : sums_) {
      sums.amounts.resize(names_.size());
      sums.counts.resize(names_.size());
    }
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      std::vector<double> parts;
      for (const RowSums& sums : sums_) parts.push_back(sums.amounts[counter]);
      const std::vector<int64_t> counts = RoundToSum(parts, totals_[counter]);
      for (size_t row = 0; row < sums_.size(); ++row) sums_[row].counts[counter] = counts[row];
    }
  }

  // A reading's time and its counters are not read at the same instant, so short spans may seem to run longer than they
  // last.
  Cell RunningPercent(const RowSums& sums) const {
    const bool is_all = sums.own_running_ns > sums.own_time_ns && sums.own_running_ns <= sums.own_time_ns * kMostSkew;
    return PartOf(is_all ? sums.own_time_ns : sums.own_running_ns, sums.own_time_ns);
  }

  // Uses the first of its formulas whose counters are known.
  Cell Derived(const DerivedMetric& metric, const RowSums& sums) const {
    const auto amount_of = [&](absl::string_view counter) { return AmountOf(sums, counter); };
    for (const DerivedMetric& formula : DerivedMetrics()) {
      if (formula.name != metric.name) continue;
      if (const std::optional<double> value = formula.Of(amount_of)) return *value;
    }
    return std::monostate();
  }

  std::optional<double> AmountOf(const RowSums& sums, absl::string_view counter) const {
    if (counter == kWallShare) return has_shares_ ? static_cast<double>(sums.share_ns) : sums.own_time_ns;
    for (CounterIndex i = 0; i < names_.size(); ++i) {
      if (names_[i] == counter) return static_cast<double>(sums.counts[i]);
    }
    return std::nullopt;
  }

  std::optional<int64_t> RestOf(CounterIndex counter) const {
    int64_t rest = -totals_[counter];
    bool is_known = !run_.processes.empty();
    for (const ProcessCounts& process : run_.processes) {
      is_known = is_known && process.is_known[counter];
      rest += process.amount[counter];
    }
    return is_known ? std::optional(rest) : std::nullopt;
  }

  // "Sum of the rows: task_clock 1.23 s (the process: 1.24 s), minor_faults 4711 …"
  std::string SumsNote() const {
    std::vector<std::string> parts;
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      const bool is_time = CounterColumn(names_[counter]).unit == "ns";
      const auto text = [&](int64_t amount) { return is_time ? HumanTime(amount) : absl::StrCat(amount); };
      std::string part = absl::StrCat(CounterColumnName(names_[counter]), " ", text(totals_[counter]));
      const std::optional<int64_t> rest = RestOf(counter);
      if (rest) absl::StrAppend(&part, " (process as a whole: ", text(totals_[counter] + *rest), ")");
      parts.push_back(std::move(part));
    }
    return absl::StrCat("Counted by the threads of the run: ", absl::StrJoin(parts, ", "), ".");
  }

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

bool IsEmpty(const CounterSums::RowSums& sums) {
  return sums.share_ns == 0 && absl::c_all_of(sums.counts, [](int64_t count) { return count == 0; });
}

// Rows with any counts, by the sort counter, or in the order in which they appeared.
std::vector<size_t> OrderOf(const CounterSums& sums, bool in_order) {
  std::vector<size_t> order(sums.rows().size());
  absl::c_iota(order, 0);
  if (!in_order) absl::c_stable_sort(order, [&](size_t a, size_t b) { return sums.LeadOf(a) > sums.LeadOf(b); });
  return order;
}

Table MakeTable(const TraceModel& model, std::string name, std::string title, std::unique_ptr<CounterRows> rows) {
  const CountedRun run = ReadCounters(model);
  CounterSums sums(model, run);
  TypedColumns<size_t> columns = rows->Columns();
  AppendColumns(sums.Columns(/*has_shares=*/true), &columns);
  if (rows->AreInOrder()) {  // intervals of two runs do not correspond: not to be compared
    for (AnyColumn& typed : columns.all()) typed.column.role = Role::kNone;
  }
  Table table = NewTable(std::move(name), std::move(title), columns);
  if (!run.counters.empty()) {
    sums.Divide(rows.get());
    for (size_t row : OrderOf(sums, rows->AreInOrder())) {
      if (!IsEmpty(sums.rows()[row])) AddRow(columns, row, &table);
    }
    if (rows->AreInOrder()) SortByStart(&table);
    if (sums.HasRest()) AddRow(columns, CounterRows::kRest, &table);
  }
  for (std::vector<std::string> notes : {sums.Notes(), rows->Notes()}) {
    table.notes.insert(table.notes.end(), notes.begin(), notes.end());
  }
  return table;
}

Table ByThreadTable(const TraceModel& model) {
  const CountedRun run = ReadCounters(model);
  CounterSums sums(model, run);
  const auto of_thread = [&](auto get) {
    return [&sums, &run, get](size_t row) {
      return row == CounterRows::kRest ? Cell() : Cell(get(run.timelines[sums.ThreadOf(row)]));
    };
  };
  TypedColumns<size_t> columns = {
      {ProcessColumn(model.processes.size() > 1),
       of_thread([&model](const CounterTimeline& timeline) { return int64_t{model.processes[timeline.process].pid}; })},
      {TextColumn("thread"), "Its name; not known of threads that made no recorded call.",
       [&](size_t row) {
         if (row == CounterRows::kRest) return Cell(kNotSampled);
         const ThreadIndex thread = run.timelines[sums.ThreadOf(row)].thread;
         return thread == kNone ? Cell() : Cell(model.threads[thread].name);
       }},
      {NumberColumn("tid"), "Its number in the kernel.",
       of_thread([](const CounterTimeline& timeline) { return int64_t{timeline.tid}; })},
      {IntegerColumn("time", "ns", Better::kNeither), "In which its running time was counted.", [&](size_t row) {
         return row == CounterRows::kRest ? Cell() : Cell(static_cast<int64_t>(sums.rows()[row].own_time_ns));
       }}};
  AppendColumns(sums.Columns(/*has_shares=*/false), &columns);
  sums.ByThread();
  Table table = NewTable("counters", "What the processor counted, by thread", columns, OrderOf(sums, false));
  if (!run.counters.empty() && sums.HasRest()) AddRow(columns, CounterRows::kRest, &table);
  table.notes = sums.Notes();
  return table;
}

}  // namespace

absl::StatusOr<Table> CountersTable(const TraceModel& model, const TableOptions& options) {
  const std::string title = "What the processor counted, by what the program did";
  switch (options.counters_by) {
    case CountersBy::kPhase:
      return MakeTable(model, "counters", title, RowsByPhase(model, options));
    case CountersBy::kStep:
      return MakeTable(model, "counters", title, RowsByStep(model, options));
    case CountersBy::kScope:
      return MakeTable(model, "counters", title, RowsByScope(model));
    case CountersBy::kThread:
      return ByThreadTable(model);
    case CountersBy::kLayers:
      break;
  }
  return MakeTable(model, "counters", title, RowsByLayer(model, options));
}

absl::StatusOr<Table> CountersOverTimeTable(const TraceModel& model, const TableOptions& options) {
  const std::string name = "counters_over_time";
  const std::string title = "What the processor counted over time";
  const bool has_counters = !model.counters.empty();
  if (options.interval_ns == 0 && (!has_counters || !options.analysis->steps().empty())) {
    return MakeTable(model, name, title, RowsByStep(model, options));
  }
  const int64_t interval_ns = options.interval_ns > 0 ? options.interval_ns : IntervalFor(model.wall_ns());
  Table table = MakeTable(model, name, title, RowsByInterval(model, interval_ns));
  if (options.interval_ns == 0) {
    table.notes.push_back(absl::StrCat("No steps were found: rows are intervals of ", HumanTime(interval_ns), "."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
