// Table `overlap`: what runs at the same time on each GPU.
//
// Table `overlap_over_time`: what runs at the same time on each GPU, by step or by interval.

#include "analyzer/model/limits.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct Pair {
  const char* work;
  const char* beside;
  const IntervalSet GpuTimeline::*first;
  const IntervalSet GpuTimeline::*second;
  const IntervalSet GpuTimeline::*twice;  // null: two different kinds
};
constexpr Pair kPairs[] = {
    {"copies", "compute", &GpuTimeline::copies, &GpuTimeline::compute, nullptr},
    {"communication", "compute", &GpuTimeline::communication, &GpuTimeline::compute, nullptr},
    {"communication", "copies", &GpuTimeline::communication, &GpuTimeline::copies, nullptr},
    {"compute", "compute", &GpuTimeline::compute, &GpuTimeline::compute, &GpuTimeline::compute_twice},
    {"copies", "copies", &GpuTimeline::copies, &GpuTimeline::copies, &GpuTimeline::copies_twice},
    {"copies HtoD", "copies DtoH", &GpuTimeline::to_device, &GpuTimeline::from_device, nullptr},
};

struct OverlapSums {
  int64_t first_ns = 0;
  int64_t second_ns = 0;
  int64_t both_ns = 0;
  void Add(const OverlapSums& other) {
    first_ns += other.first_ns;
    second_ns += other.second_ns;
    both_ns += other.both_ns;
  }
  Cell Possible() const { return Percent(both_ns, std::min(first_ns, second_ns)); }
};

struct PairSums {
  OverlapSums steady;
  OverlapSums run;
  void Add(const PairSums& other) {
    steady.Add(other.steady);
    run.Add(other.run);
  }
};

struct PairRow {
  DeviceLabel device;
  const Pair& pair;
  PairSums sums;
  int64_t steps = 1;

  bool IsListed() const { return sums.run.first_ns != 0 && sums.run.second_ns != 0; }
};

TypedColumns<PairRow> OverlapColumns(bool has_processes) {
  const auto time = [](std::string name, Better better, std::string explanation) {
    return IntegerColumn(std::move(name), "ns", better, std::move(explanation));
  };
  TypedColumns<PairRow> columns = GpuLabelColumns(has_processes).Of(&PairRow::device);
  columns.Add({
      {As(Role::kKey, TextColumn("work")),
       "Compute: kernels but those of collectives; communication: those; copies: without memset.",
       [](const PairRow& row) { return row.pair.work; }},
      {As(Role::kKey, TextColumn("beside")), "The concurrent work; the same kind again: two or more of them at once.",
       [](const PairRow& row) { return row.pair.beside; }},
      {time("time", Better::kHigher,
            "In which both ran, in a mean steady step (without steps: in all); each instant counts once. By the GPU's "
            "time: work that a step requested may run in the next one's time."),
       [](const PairRow& row) { return Mean(row.sums.steady.both_ns, row.steps); }},
      {PercentColumn("percent", Better::kHigher),
       "As a part of the smaller side's time, so of the overlap that is possible.",
       [](const PairRow& row) { return row.sums.steady.Possible(); }},
      {PercentColumn("work_percent", Better::kHigher), "As a part of the time in which the first side ran.",
       [](const PairRow& row) { return Percent(row.sums.steady.both_ns, row.sums.steady.first_ns); }},
      {PercentColumn("beside_percent", Better::kHigher), "As a part of the time in which the second side ran.",
       [](const PairRow& row) { return Percent(row.sums.steady.both_ns, row.sums.steady.second_ns); }},
      {time("work_time", Better::kNeither, "In which the first side ran, in a mean steady step."),
       [](const PairRow& row) { return Mean(row.sums.steady.first_ns, row.steps); }},
      {time("beside_time", Better::kNeither, "In which the second side ran, in a mean steady step."),
       [](const PairRow& row) { return Mean(row.sums.steady.second_ns, row.steps); }},
      {Detail(time("steady_time", Better::kHigher, "In which both ran, in all steady steps.")),
       [](const PairRow& row) { return row.sums.steady.both_ns; }},
      {Detail(time("run_time", Better::kHigher, "In which both ran, in the whole run, as far as GPUs were measured.")),
       [](const PairRow& row) { return row.sums.run.both_ns; }},
      {Detail(PercentColumn("run_percent", Better::kHigher)),
       "The same as a part of the smaller side's time in the whole run.",
       [](const PairRow& row) { return row.sums.run.Possible(); }},
      {Detail(time("run_work_time", Better::kNeither, "In which the first side ran, in the whole run.")),
       [](const PairRow& row) { return row.sums.run.first_ns; }},
      {Detail(time("run_beside_time", Better::kNeither, "In which the second side ran, in the whole run.")),
       [](const PairRow& row) { return row.sums.run.second_ns; }},
  });
  return columns;
}

PairSums SumsOf(const GpuRun& run, GpuDeviceIndex device, const Pair& pair) {
  const GpuTimeline& timeline = run.TimelineOf(device);
  const IntervalSet& first = timeline.*pair.first;
  const IntervalSet& second = timeline.*pair.second;
  const IntervalSet both = pair.twice != nullptr ? timeline.*pair.twice : first.Intersection(second);
  const auto in = [&](const IntervalSet& time) {
    return OverlapSums{CoveredIn(first, time), CoveredIn(second, time), CoveredIn(both, time)};
  };
  return {in(run.SteadyTime(device)), in(run.RunTime(device))};
}

// A step of a process that uses several devices counts once.
int64_t StepsOfAll(const GpuRun& run) {
  int64_t steps = 0;
  std::vector<ProcessIndex> seen;
  for (GpuDeviceIndex device : run.devices()) {
    if (absl::c_linear_search(seen, run.ProcessOf(device))) continue;
    seen.push_back(run.ProcessOf(device));
    steps += run.Steps(device);
  }
  return steps;
}

// Sets whose time in a piece of the run is added up.
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

 private:
  IntervalSet Of(const IntervalSet& set) const { return set.Intersection(measured); }
};

// A row, and the times in it.
struct DeviceTimes {
  size_t row = 0;  // of CounterRows
  std::string device;
  int64_t measured = 0, compute = 0, copies = 0, communication = 0, copies_beside_compute = 0,
          communication_beside_compute = 0, compute_twice = 0, copies_twice = 0, idle = 0;

  void Add(const Measures& sets, int64_t start_ns, int64_t end_ns) {
    const auto in = [&](const IntervalSet& set) { return set.CoveredNs(start_ns, end_ns); };
    measured += in(sets.measured);
    compute += in(sets.compute);
    copies += in(sets.copies);
    communication += in(sets.communication);
    copies_beside_compute += in(sets.copies_beside_compute);
    communication_beside_compute += in(sets.communication_beside_compute);
    compute_twice += in(sets.compute_twice);
    copies_twice += in(sets.copies_twice);
    idle += in(sets.idle);
  }
};

TypedColumns<DeviceTimes> OverlapOverTimeColumns(const CounterRows& rows) {
  const auto time = [](std::string name, Better better, std::string explanation, int64_t DeviceTimes::*ns) {
    return TypedColumn<DeviceTimes>(IntegerColumn(std::move(name), "ns", better, std::move(explanation)), ns);
  };
  TypedColumns<DeviceTimes> columns = rows.Columns().Of(&DeviceTimes::row);
  columns.Add({
      {TextColumn("device"), "CUDA's number of it in the process.", &DeviceTimes::device},
      time("compute", Better::kNeither, "In which kernels ran, but for those of collectives.", &DeviceTimes::compute),
      time("copies", Better::kNeither, "In which copies ran, without memset.", &DeviceTimes::copies),
      time("communication", Better::kNeither, "In which kernels of collectives ran.", &DeviceTimes::communication),
      time("copies_beside_compute", Better::kHigher, "In which copies and kernels ran at once.",
           &DeviceTimes::copies_beside_compute),
      {PercentColumn("copies_hidden", Better::kHigher), "The same as a part of the time in which copies ran.",
       [](const DeviceTimes& times) { return Percent(times.copies_beside_compute, times.copies); }},
      time("communication_beside_compute", Better::kHigher, "In which collectives and other kernels ran at once.",
           &DeviceTimes::communication_beside_compute),
      {PercentColumn("communication_hidden", Better::kHigher),
       "The same as a part of the time in which collectives ran.",
       [](const DeviceTimes& times) { return Percent(times.communication_beside_compute, times.communication); }},
      Detail(time("concurrent_kernels", Better::kHigher,
                  "In which two or more kernels ran at once, but for those of collectives.",
                  &DeviceTimes::compute_twice)),
      Detail(time("concurrent_copies", Better::kHigher, "In which two or more copies ran at once.",
                  &DeviceTimes::copies_twice)),
      time("idle", Better::kLower, "In which nothing ran for this process.", &DeviceTimes::idle),
      {PercentColumn("compute_percent", Better::kHigher), "Compute as a part of the time that was measured.",
       [](const DeviceTimes& times) { return Percent(times.compute, times.measured); }},
      Detail(time("measured", Better::kNeither, "For which GPU activity is known.", &DeviceTimes::measured)),
  });
  return columns;
}

// By row.
std::map<size_t, DeviceTimes> TimesOf(const Measures& measures, ProcessIndex process,
                                      const std::vector<int64_t>& boundaries, CounterRows& rows) {
  std::map<size_t, DeviceTimes> times;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    CountedPiece piece;
    piece.start_ns = boundaries[i];
    piece.end_ns = boundaries[i + 1];
    if (measures.measured.CoveredNs(piece.start_ns, piece.end_ns) == 0) continue;
    times[rows.RowOf(process, piece)].Add(measures, piece.start_ns, piece.end_ns);
  }
  return times;
}

void AddRows(const TraceModel& model, const GpuRun& run, CounterRows& rows, const TypedColumns<DeviceTimes>& columns,
             Table& table) {
  Limit intervals("intervals of devices", kMaxIntervals);
  for (GpuDeviceIndex device : run.devices()) {
    const ProcessIndex process = run.ProcessOf(device);
    std::vector<int64_t> boundaries = rows.Boundaries(process);
    boundaries.insert(boundaries.end(), {model.start_ns, model.end_ns});
    absl::c_sort(boundaries);
    intervals.Take(boundaries.size());
    for (auto& [row, times] : TimesOf(Measures(run, device), process, boundaries, rows)) {
      times.row = row;
      times.device = absl::StrCat(model.gpu_devices[device].ordinal);
      AddRow(columns, times, &table);
    }
  }
}

}  // namespace

absl::StatusOr<Table> OverlapTable(const TraceModel& model, const TableOptions& options) {
  const std::string title = "Copies, compute and communication on GPUs, and how they overlap";
  if (model.gpu.empty()) return NewTable("overlap", title, OverlapColumns(false));
  const GpuRun run(model, options.analysis->steps());
  const TypedColumns<PairRow> columns = OverlapColumns(run.HasSeveralProcesses());
  Table table = NewTable("overlap", title, columns);
  const auto add = [&](const PairRow& row) {
    if (row.IsListed()) AddRow(columns, row, &table);
  };
  std::vector<PairSums> all(std::size(kPairs));
  for (GpuDeviceIndex device : run.devices()) {
    for (size_t i = 0; i < std::size(kPairs); ++i) {
      const PairSums sums = SumsOf(run, device, kPairs[i]);
      add({run.LabelOf(device), kPairs[i], sums, std::max<int64_t>(run.Steps(device), 1)});
      all[i].Add(sums);
    }
  }
  for (size_t i = 0; i < std::size(kPairs) && run.devices().size() > 1; ++i) {
    add({DeviceLabel(), kPairs[i], all[i], std::max<int64_t>(StepsOfAll(run), 1)});
  }
  table.notes = run.Notes();
  return table;
}

absl::StatusOr<Table> OverlapOverTimeTable(const TraceModel& model, const TableOptions& options) {
  const bool has_times = !model.gpu.empty();
  const bool by_step = options.interval_ns == 0 && (!has_times || !options.analysis->steps().empty());
  const int64_t interval_ns = options.interval_ns > 0 ? options.interval_ns : IntervalFor(model.wall_ns());
  const std::unique_ptr<CounterRows> rows = by_step ? RowsByStep(model, options) : RowsByInterval(model, interval_ns);
  const TypedColumns<DeviceTimes> columns = OverlapOverTimeColumns(*rows);
  Table table = NewTable("overlap_over_time",
                         "Copies, compute and communication on GPUs over time, and how they overlap", columns);
  if (!has_times) return table;
  const GpuRun run(model, options.analysis->steps());
  AddRows(model, run, *rows, columns, table);
  SortByStart(&table);
  table.notes = run.Notes();
  if (!by_step && options.interval_ns == 0) {
    table.notes.push_back(absl::StrCat("No steps were found: rows are intervals of ", HumanTime(interval_ns), "."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
