// Tables `counters` and `counters_over_time`: counters of the processor and the kernel, by what the program did.

#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
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

struct CounterRowSums {
  std::vector<double> amounts;  // by CounterIndex
  std::vector<int64_t> counts;  // the same as whole numbers; over all rows they add up to what was counted
  double own_time_ns = 0;       // of threads whose running time is counted, without time spent in nested activities
  double own_running_ns = 0;    // part of it in which they ran
  double estimated = 0;         // of the counter that rows are sorted by
  int64_t share_ns = 0;

  bool IsEmpty() const { return share_ns == 0 && absl::c_count(counts, 0) == std::ssize(counts); }
};

struct CountersLine {
  const CounterRow& row;
  const CounterRowSums* sums;  // null: of what no reading covers, which has only counters
};

class CounterSums {
 public:
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
  std::vector<CounterRow> ByThread() {
    has_shares_ = false;
    std::vector<CounterRow> rows;
    std::map<std::tuple<ProcessIndex, ThreadIndex, uint32_t>, size_t> numbers;
    for (const CounterTimeline& timeline : run_.timelines) {
      const auto [at, is_new] =
          numbers.emplace(std::tuple(timeline.process, timeline.thread, timeline.tid), rows.size());
      if (is_new) {
        rows.push_back({.name = timeline.thread == kNone ? Cell() : Cell(model_.threads[timeline.thread].name),
                        .process = int64_t{model_.processes[timeline.process].pid},
                        .index = int64_t{timeline.tid}});
      }
      CounterRowSums& sums = At(at->second);
      for (size_t j = 0; j < timeline.amounts.size(); ++j) {
        const CounterIndex counter = timeline.counters[j % timeline.counters.size()];
        sums.amounts[counter] += static_cast<double>(timeline.amounts[j]);
        if (counter != clock_) continue;
        const size_t interval = j / timeline.counters.size();
        sums.own_time_ns += static_cast<double>(timeline.end_ns[interval] - timeline.start_ns[interval]);
        sums.own_running_ns += static_cast<double>(timeline.amounts[j]);
      }
    }
    for (size_t row = 0; row < rows.size(); ++row) rows[row].duration = static_cast<int64_t>(sums_[row].own_time_ns);
    Round();
    return rows;
  }

  // Behind those of the rows, columns for each counter, for the metrics derived from them, and for how they were measured. A
  // run without counters has the columns of the software counters and all derived metrics.
  TypedColumns<CountersLine> Columns(TypedColumns<CounterRow> of_rows, bool has_shares) const {
    TypedColumns<CountersLine> columns =
        of_rows.Of<CountersLine>([](const CountersLine& line) -> const CounterRow& { return line.row; });
    const size_t first = columns.all().size();
    const auto add = [&](Column column, auto get) {
      const std::string name =
          of_rows.Find(column.name) != nullptr ? absl::StrCat("counter_", column.name) : column.name;
      column.name = name;
      for (int i = 2; columns.Find(column.name) != nullptr; ++i) column.name = absl::StrCat(name, "_", i);
      columns.Add({std::move(column), std::move(get)});
    };
    const auto of_row = [](auto get) {
      return [get](const CountersLine& line) { return line.sums == nullptr ? Cell() : Cell(get(*line.sums)); };
    };
    const auto add_running = [&] {
      add(Within(Range::kMeasured, PercentColumn("running_percent", Better::kNeither, kRunningExplanation)),
          of_row([this](const CounterRowSums& sums) { return RunningPercent(sums); }));
    };
    const auto add_counter = [&](const std::string& name, CounterIndex counter) {
      Column column = CounterColumn(name);
      column.detail = columns.all().size() - first >= kCountersInText;  // derived metrics say more
      add(std::move(column), [this, counter](const CountersLine& line) {
        return line.sums == nullptr ? ToCell(RestOf(counter)) : Cell(line.sums->counts[counter]);
      });
    };
    if (has_shares) {
      add(As(Role::kWeight, TimeColumn("wall_share", kShareExplanation)),
          of_row([](const CounterRowSums& sums) { return sums.share_ns; }));
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
          of_row([this, metric](const CounterRowSums& sums) { return Derived(*metric, sums); }));
    }
    add(PercentColumn("estimated_percent", Better::kNeither, kEstimatedExplanation),
        of_row([this](const CounterRowSums& sums) {
          return PartOf(sums.estimated, names_.empty() || !has_shares_ ? 0 : sums.amounts[lead_]);
        }));
    return columns;
  }

  // The rows with any counts (threads: all), by the counter that measures time, else the first, or by their start; then what no thread's reading
  // covers.
  void AddTo(const std::vector<CounterRow>& rows, bool in_order, const TypedColumns<CountersLine>& columns,
             Table* table) const {
    std::vector<size_t> order(sums_.size());
    absl::c_iota(order, 0);
    const auto lead = [&](size_t row) { return names_.empty() ? 0 : sums_[row].counts[lead_]; };
    if (!in_order) std::ranges::stable_sort(order, std::ranges::greater(), lead);
    for (const size_t row : order) {
      if (!has_shares_ || !sums_[row].IsEmpty()) AddRow(columns, {rows[row], &sums_[row]}, table);
    }
    if (in_order) SortByStart(table);
    const CounterRow rest = {.name = kNotSampled};
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      if (RestOf(counter).value_or(0) == 0) continue;
      AddRow(columns, {rest, nullptr}, table);
      break;
    }
    AddNotes(table);
  }

 private:
  void AddNotes(Table* table) const {
    if (names_.empty()) {
      table->Note(
          "No counters were read. Run again with DLHOOK_COUNTERS=software (`dlhook counters` says what this machine "
          "can count).");
      return;
    }
    table->notes.push_back(SumsNote());
    if (run_.enabled_ns > 0 && run_.running_ns < run_.enabled_ns) {
      table->notes.push_back(absl::StrFormat(
          "Counters shared the processor's registers: they were counted in %.0f %% of the time, and scaled.",
          100.0 * static_cast<double>(run_.running_ns) / static_cast<double>(run_.enabled_ns)));
    }
  }

  // The time counter first.
  std::vector<CounterIndex> InReportOrder() const {
    std::vector<CounterIndex> order;
    if (clock_ != kNone) order.push_back(clock_);
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      if (counter != clock_) order.push_back(counter);
    }
    return order;
  }

  CounterRowSums& At(size_t row) {
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
    CounterRowSums& sums = At(row);
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
    for (CounterRowSums& sums : sums_) {
      sums.amounts.resize(names_.size());
      sums.counts.resize(names_.size());
    }
    for (CounterIndex counter = 0; counter < names_.size(); ++counter) {
      std::vector<double> parts;
      for (const CounterRowSums& sums : sums_) parts.push_back(sums.amounts[counter]);
      const std::vector<int64_t> counts = RoundToSum(parts, totals_[counter]);
      for (size_t row = 0; row < sums_.size(); ++row) sums_[row].counts[counter] = counts[row];
    }
  }

  // A reading's time and its counters are not read at the same instant, so short spans may seem to run longer than they
  // last.
  Cell RunningPercent(const CounterRowSums& sums) const {
    const bool is_all = sums.own_running_ns > sums.own_time_ns && sums.own_running_ns <= sums.own_time_ns * kMostSkew;
    return PartOf(is_all ? sums.own_time_ns : sums.own_running_ns, sums.own_time_ns);
  }

  // Uses the first of its formulas whose counters are known.
  Cell Derived(const DerivedMetric& metric, const CounterRowSums& sums) const {
    const auto amount_of = [&](absl::string_view counter) { return AmountOf(sums, counter); };
    for (const DerivedMetric& formula : DerivedMetrics()) {
      if (formula.name != metric.name) continue;
      if (const std::optional<double> value = formula.Of(amount_of)) return *value;
    }
    return std::monostate();
  }

  std::optional<double> AmountOf(const CounterRowSums& sums, absl::string_view counter) const {
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
  std::vector<CounterRowSums> sums_;
};

Table TableOf(const TraceModel& model, std::string name, std::string title, CounterRows& rows) {
  const CountedRun run = ReadCounters(model);
  CounterSums sums(model, run);
  TypedColumns<CountersLine> columns = sums.Columns(rows.columns(), /*has_shares=*/true);
  if (rows.in_order) {  // intervals of two runs do not correspond: not to be compared
    for (AnyColumn& typed : columns.all()) typed.column.role = Role::kNone;
  }
  Table table = NewTable(std::move(name), std::move(title), columns);
  if (!run.counters.empty()) sums.Divide(&rows);
  sums.AddTo(rows.rows(), rows.in_order, columns, &table);
  return table;
}

Table ByThreadTable(const TraceModel& model) {
  const CountedRun run = ReadCounters(model);
  CounterSums sums(model, run);
  const TypedColumns<CounterRow> of_rows = {
      {ProcessColumn(model.processes.size() > 1), &CounterRow::process},
      {TextColumn("thread"), "Its name; not known of threads that made no recorded call.", &CounterRow::name},
      {NumberColumn("tid"), "Its number in the kernel.", &CounterRow::index},
      {IntegerColumn("time", "ns", Better::kNeither), "In which its running time was counted.", &CounterRow::duration}};
  const TypedColumns<CountersLine> columns = sums.Columns(of_rows, /*has_shares=*/false);
  const std::vector<CounterRow> rows = sums.ByThread();
  Table table = NewTable("counters", "What the processor counted, by thread", columns);
  sums.AddTo(rows, /*in_order=*/false, columns, &table);
  return table;
}

}  // namespace

absl::StatusOr<Table> CountersTable(const TraceModel& model, const TableOptions& options) {
  const By by = options.RowsOf("counters");
  if (by == By::kThread) return ByThreadTable(model);
  return TableOf(model, "counters", "What the processor counted, by what the program did", *RowsBy(by, model, options));
}

absl::StatusOr<Table> CountersOverTimeTable(const TraceModel& model, const TableOptions& options) {
  const RowsOverTime over_time = RowsOverTimeOf(model, options, !model.counters.empty());
  Table table = TableOf(model, "counters_over_time", "What the processor counted over time", *over_time.rows);
  table.notes.insert(table.notes.end(), over_time.notes.begin(), over_time.notes.end());
  return table;
}

}  // namespace dlhook::analyzer::tables
