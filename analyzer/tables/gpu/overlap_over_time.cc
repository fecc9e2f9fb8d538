// Table `overlap_over_time`: what runs beside what on each GPU, by iteration or by interval.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/model/limits.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

// Sets whose time in a piece of the run is summed up, in the order of the columns.
struct Measures {
  IntervalSet measured, compute, copies, communication, copies_beside_compute, communication_beside_compute,
      compute_twice, copies_twice, idle;
  explicit Measures(const GpuRun& run, GpuDeviceIndex device)
      : measured(run.RunTime(device)),
        compute(Of(run.TimelineOf(device).compute)),
        copies(Of(run.TimelineOf(device).copies)),
        communication(Of(run.TimelineOf(device).communication)),
        copies_beside_compute(copies.Intersection(compute)),
        communication_beside_compute(communication.Intersection(compute)),
        compute_twice(Of(run.TimelineOf(device).compute_twice)),
        copies_twice(Of(run.TimelineOf(device).copies_twice)),
        idle(measured.Difference(run.TimelineOf(device).busy)) {}

  std::vector<int64_t> In(int64_t start_ns, int64_t end_ns) const {
    std::vector<int64_t> times_ns;
    for (const IntervalSet* set : {&measured, &compute, &copies, &communication, &copies_beside_compute,
                                   &communication_beside_compute, &compute_twice, &copies_twice, &idle}) {
      times_ns.push_back(set->CoveredNs(start_ns, end_ns));
    }
    return times_ns;
  }

 private:
  IntervalSet Of(const IntervalSet& set) const { return set.Intersection(measured); }
};
enum Measure : size_t {
  kMeasured,
  kCompute,
  kCopies,
  kCommunication,
  kCopiesBeside,
  kCommunicationBeside,
  kTwice,
  kCopiesTwice,
  kIdle
};

void AppendColumns(std::vector<Column>* columns) {
  const auto time = [](std::string name, Better better, std::string explanation) {
    return IntegerColumn(std::move(name), "ns", better, std::move(explanation));
  };
  const std::vector<Column> more = {
      TextColumn("device", "CUDA's number of it in the process."),
      time("compute", Better::kNeither, "In which kernels ran, but for those of collectives."),
      time("copies", Better::kNeither, "In which copies ran, without memset."),
      time("communication", Better::kNeither, "In which kernels of collectives ran."),
      time("copies_beside_compute", Better::kHigher, "In which copies and kernels ran at once."),
      RealColumn("copies_hidden", "%", Better::kHigher, "The same as a part of the time in which copies ran."),
      time("communication_beside_compute", Better::kHigher, "In which collectives and other kernels ran at once."),
      RealColumn("communication_hidden", "%", Better::kHigher,
                 "The same as a part of the time in which collectives ran."),
      Detail(time("concurrent_kernels", Better::kHigher,
                  "In which two or more kernels ran at once, but for those of collectives.")),
      Detail(time("concurrent_copies", Better::kHigher, "In which two or more copies ran at once.")),
      time("idle", Better::kLower, "In which nothing ran at all for this process."),
      RealColumn("compute_percent", "%", Better::kHigher, "Compute as a part of the time that was measured."),
      Detail(time("measured", Better::kNeither, "For which GPU activity is known.")),
  };
  columns->insert(columns->end(), more.begin(), more.end());
}

Row CellsOf(const std::vector<int64_t>& ns) {
  return {ns[kCompute],
          ns[kCopies],
          ns[kCommunication],
          ns[kCopiesBeside],
          Percent(ns[kCopiesBeside], ns[kCopies]),
          ns[kCommunicationBeside],
          Percent(ns[kCommunicationBeside], ns[kCommunication]),
          ns[kTwice],
          ns[kCopiesTwice],
          ns[kIdle],
          Percent(ns[kCompute], ns[kMeasured]),
          ns[kMeasured]};
}

using RowTimes = std::map<size_t, std::vector<int64_t>>;  // by the number of CounterRows

RowTimes TimesOf(const Measures& measures, ProcessIndex process, const std::vector<int64_t>& boundaries,
                 CounterRows& rows) {
  RowTimes times;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    const std::vector<int64_t> ns = measures.In(boundaries[i], boundaries[i + 1]);
    if (ns[kMeasured] == 0) continue;
    CountedPiece piece;
    piece.start_ns = boundaries[i];
    piece.end_ns = boundaries[i + 1];
    std::vector<int64_t>& sums = times.try_emplace(rows.RowOf(process, piece), ns.size(), 0).first->second;
    for (size_t k = 0; k < ns.size(); ++k) sums[k] += ns[k];
  }
  return times;
}

void AddRows(const TraceModel& model, const GpuRun& run, CounterRows& rows, Table& table) {
  Limit intervals("intervals of devices", kMaxIntervals);
  for (GpuDeviceIndex device : run.devices()) {
    const ProcessIndex process = run.ProcessOf(device);
    std::vector<int64_t> boundaries = rows.Boundaries(process);
    boundaries.insert(boundaries.end(), {model.start_ns, model.end_ns});
    std::sort(boundaries.begin(), boundaries.end());
    intervals.Take(boundaries.size());
    for (const auto& [number, ns] : TimesOf(Measures(run, device), process, boundaries, rows)) {
      Row row = rows.LabelsOf(number);
      row.push_back(absl::StrCat(model.gpu_devices[device].ordinal));
      const Row cells = CellsOf(ns);
      row.insert(row.end(), cells.begin(), cells.end());
      table.rows.push_back(std::move(row));
    }
  }
}

}  // namespace

absl::StatusOr<Table> OverlapOverTimeTable(const TraceModel& model, const TableOptions& options) {
  const bool has_times = !model.gpu.empty();
  const bool by_iteration = options.interval_ns == 0 && (!has_times || !options.analysis->steps().empty());
  const int64_t interval_ns = options.interval_ns > 0 ? options.interval_ns : IntervalFor(model.wall_ns());
  const std::unique_ptr<CounterRows> rows =
      by_iteration ? RowsByIteration(model, options) : RowsByInterval(model, interval_ns);
  std::vector<Column> columns = rows->Columns();
  AppendColumns(&columns);
  Table table = NewTable("overlap_over_time", "What runs beside what on GPUs, over time", std::move(columns));
  if (!has_times) return table;
  const GpuRun run(model, options.analysis->steps());
  AddRows(model, run, *rows, table);
  SortByStart(&table);
  table.notes = run.Notes();
  if (!by_iteration && options.interval_ns == 0) {
    table.notes.push_back(absl::StrCat("No steps were found: rows are intervals of ", HumanTime(interval_ns), "."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
