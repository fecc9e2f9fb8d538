// Tables `counters` and `counters_over_time`: counters of the processor and the kernel, by what the program did.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/tables/counters/counter_sums.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/counter_division.h"

namespace dlhook::analyzer::inline tables {
namespace {

void AppendColumns(TypedColumns<size_t> more, TypedColumns<size_t>* columns) {
  for (AnyColumn& typed : more.all()) {
    std::string& name = typed.column.name;
    if (columns->Find(name) != nullptr) name = absl::StrCat("counter_", name);
  }
  columns->Add(more);
}

bool IsEmpty(const CounterSums::RowSums& sums) {
  return sums.share_ns == 0 &&
         std::all_of(sums.counts.begin(), sums.counts.end(), [](int64_t count) { return count == 0; });
}

// Rows with any counts, by the sort counter, or in the order in which they appeared.
std::vector<size_t> OrderOf(const CounterSums& sums, bool in_order) {
  std::vector<size_t> order(sums.rows().size());
  std::iota(order.begin(), order.end(), 0);
  if (!in_order) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sums.LeadOf(a) > sums.LeadOf(b); });
  }
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
      {TextColumn("thread", "Its name; not known of threads that made no recorded call."),
       [&](size_t row) {
         if (row == CounterRows::kRest) return Cell(kNotSampled);
         const ThreadIndex thread = run.timelines[sums.ThreadOf(row)].thread;
         return thread == kNone ? Cell() : Cell(model.threads[thread].name);
       }},
      {NumberColumn("tid", "Its number in the kernel."),
       of_thread([](const CounterTimeline& timeline) { return int64_t{timeline.tid}; })},
      {IntegerColumn("time", "ns", Better::kNeither, "In which its running time was counted."), [&](size_t row) {
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
