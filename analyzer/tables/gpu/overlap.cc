// Table `overlap`: what runs at the same time on each GPU.
//
// Table `overlap_over_time`: what runs at the same time on each GPU, by step or by interval.

#include "analyzer/model/limits.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/counters/counter_rows.h"
#include "analyzer/tables/gpu/gpu_tables.h"

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

struct PairRow {
  DeviceLabel device;
  Pair pair;
  OverlapSums steady, run;
  int64_t steps = 1;
};

TypedColumns<PairRow> OverlapColumns(bool has_processes) {
  const auto in_step = [](int64_t OverlapSums::*ns) {
    return [ns](const PairRow& row) { return Mean(row.steady.*ns, row.steps); };
  };
  const auto in_run = [](int64_t OverlapSums::*ns) { return [ns](const PairRow& row) { return row.run.*ns; }; };
  TypedColumns<PairRow> columns = GpuLabelColumns(has_processes).Of(&PairRow::device);
  columns.Add({
      {As(Role::kKey, TextColumn("work")),
       "Compute: kernels but those of collectives; communication: those; copies: without memset.",
       [](const PairRow& row) { return row.pair.work; }},
      {As(Role::kKey, TextColumn("beside")), "The concurrent work; the same kind again: two or more of them at once.",
       [](const PairRow& row) { return row.pair.beside; }},
      {IntegerColumn("time", "ns", Better::kHigher),
       "In which both ran, in a mean steady step (without steps: in all); each instant counts once. By the GPU's "
       "time: work that a step requested may run in the next one's time.",
       in_step(&OverlapSums::both_ns)},
      {PercentColumn("percent", Better::kHigher),
       "As a part of the smaller side's time, so of the overlap that is possible.",
       [](const PairRow& row) { return row.steady.Possible(); }},
      {PercentColumn("work_percent", Better::kHigher), "As a part of the time in which the first side ran.",
       [](const PairRow& row) { return Percent(row.steady.both_ns, row.steady.first_ns); }},
      {PercentColumn("beside_percent", Better::kHigher), "As a part of the time in which the second side ran.",
       [](const PairRow& row) { return Percent(row.steady.both_ns, row.steady.second_ns); }},
      {IntegerColumn("work_time", "ns", Better::kNeither), "In which the first side ran, in a mean steady step.",
       in_step(&OverlapSums::first_ns)},
      {IntegerColumn("beside_time", "ns", Better::kNeither), "In which the second side ran, in a mean steady step.",
       in_step(&OverlapSums::second_ns)},
      {Detail(IntegerColumn("steady_time", "ns", Better::kHigher)), "In which both ran, in all steady steps.",
       [](const PairRow& row) { return row.steady.both_ns; }},
      {Detail(IntegerColumn("run_time", "ns", Better::kHigher)),
       "In which both ran, in the whole run, as far as GPUs were measured.", in_run(&OverlapSums::both_ns)},
      {Detail(PercentColumn("run_percent", Better::kHigher)),
       "The same as a part of the smaller side's time in the whole run.",
       [](const PairRow& row) { return row.run.Possible(); }},
      {Detail(IntegerColumn("run_work_time", "ns", Better::kNeither)), "In which the first side ran, in the whole run.",
       in_run(&OverlapSums::first_ns)},
      {Detail(IntegerColumn("run_beside_time", "ns", Better::kNeither)),
       "In which the second side ran, in the whole run.", in_run(&OverlapSums::second_ns)},
  });
  return columns;
}

PairRow RowOf(const GpuRun& run, GpuDeviceIndex device, const Pair& pair) {
  const GpuTimeline& timeline = run.TimelineOf(device);
  const IntervalSet& first = timeline.*pair.first;
  const IntervalSet& second = timeline.*pair.second;
  const IntervalSet both = pair.twice != nullptr ? timeline.*pair.twice : first.Intersection(second);
  const auto in = [&](const IntervalSet& time) {
    return OverlapSums{CoveredIn(first, time), CoveredIn(second, time), CoveredIn(both, time)};
  };
  return {run.LabelOf(device), pair, in(run.SteadyTime(device)), in(run.RunTime(device)), run.StepsOrOne(device)};
}

// A step of a process that uses several devices counts once.
int64_t StepsOfAll(const GpuRun& run) {
  std::map<ProcessIndex, int64_t> steps;
  for (GpuDeviceIndex device : run.devices()) steps[run.ProcessOf(device)] = run.Steps(device);
  int64_t sum = 0;
  for (const auto& [process, count] : steps) sum += count;
  return std::max<int64_t>(sum, 1);
}

// Times of a device whose parts in a piece of the run are added up.
enum OverlapMeasure {
  kMeasured,
  kCompute,
  kCopies,
  kCommunication,
  kCopiesBesideCompute,
  kCommunicationBesideCompute,
  kComputeTwice,
  kCopiesTwice,
  kIdle
};
using MeasureSets = std::array<IntervalSet, kIdle + 1>;

MeasureSets SetsOf(const GpuRun& run, GpuDeviceIndex device) {
  const GpuTimeline& timeline = run.TimelineOf(device);
  const IntervalSet& measured = run.RunTime(device);
  const auto in = [&](const IntervalSet& set) { return set.Intersection(measured); };
  const IntervalSet compute = in(timeline.compute), copies = in(timeline.copies),
                    communication = in(timeline.communication);
  return {measured,
          compute,
          copies,
          communication,
          copies.Intersection(compute),
          communication.Intersection(compute),
          in(timeline.compute_twice),
          in(timeline.copies_twice),
          measured.Difference(timeline.busy)};
}

struct DeviceTimes {
  const CounterRow* row = nullptr;
  std::string device;
  std::array<int64_t, kIdle + 1> ns = {};
};

TypedColumns<DeviceTimes> OverlapOverTimeColumns(const CounterRows& rows) {
  const auto time = [](const char* name, Better better, const char* explanation, OverlapMeasure measure) {
    return TypedColumn<DeviceTimes>(IntegerColumn(name, "ns", better, explanation),
                                    [measure](const DeviceTimes& times) { return times.ns[measure]; });
  };
  const auto part = [](const char* name, const char* explanation, OverlapMeasure measure, OverlapMeasure whole) {
    return TypedColumn<DeviceTimes>(
        PercentColumn(name, Better::kHigher, explanation),
        [measure, whole](const DeviceTimes& times) { return Percent(times.ns[measure], times.ns[whole]); });
  };
  TypedColumns<DeviceTimes> columns =
      rows.columns().Of<DeviceTimes>([](const DeviceTimes& times) -> const CounterRow& { return *times.row; });
  columns.Add({
      {TextColumn("device"), "CUDA's number of it in the process.", &DeviceTimes::device},
      time("compute", Better::kNeither, "In which kernels ran, but for those of collectives.", kCompute),
      time("copies", Better::kNeither, "In which copies ran, without memset.", kCopies),
      time("communication", Better::kNeither, "In which kernels of collectives ran.", kCommunication),
      time("copies_beside_compute", Better::kHigher, "In which copies and kernels ran at once.", kCopiesBesideCompute),
      part("copies_hidden", "The same as a part of the time in which copies ran.", kCopiesBesideCompute, kCopies),
      time("communication_beside_compute", Better::kHigher, "In which collectives and other kernels ran at once.",
           kCommunicationBesideCompute),
      part("communication_hidden", "The same as a part of the time in which collectives ran.",
           kCommunicationBesideCompute, kCommunication),
      Detail(time("concurrent_kernels", Better::kHigher,
                  "In which two or more kernels ran at once, but for those of collectives.", kComputeTwice)),
      Detail(time("concurrent_copies", Better::kHigher, "In which two or more copies ran at once.", kCopiesTwice)),
      time("idle", Better::kLower, "In which nothing ran for this process.", kIdle),
      part("compute_percent", "Compute as a part of the time that was measured.", kCompute, kMeasured),
      Detail(time("measured", Better::kNeither, "For which GPU activity is known.", kMeasured)),
  });
  return columns;
}

// By row.
std::map<size_t, DeviceTimes> TimesOf(const MeasureSets& sets, ProcessIndex process,
                                      const std::vector<int64_t>& boundaries, CounterRows& rows) {
  std::map<size_t, DeviceTimes> times;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i) {
    CountedPiece piece;
    piece.start_ns = boundaries[i];
    piece.end_ns = boundaries[i + 1];
    if (sets[kMeasured].CoveredNs(piece.start_ns, piece.end_ns) == 0) continue;
    DeviceTimes& of_row = times[rows.RowOf(process, piece)];
    for (size_t of = 0; of < sets.size(); ++of) of_row.ns[of] += sets[of].CoveredNs(piece.start_ns, piece.end_ns);
  }
  return times;
}

}  // namespace

absl::StatusOr<Table> OverlapTable(const TraceModel& model, const TableOptions& options) {
  const GpuRun run(model, options);
  const TypedColumns<PairRow> columns = OverlapColumns(run.HasSeveralProcesses());
  Table table = NewTable("overlap", "Copies, compute and communication on GPUs, and how they overlap", columns);
  std::vector<PairRow> all;
  for (const Pair& pair : kPairs) all.push_back({.pair = pair, .steps = StepsOfAll(run)});
  const auto add = [&](const PairRow& row) {
    if (row.run.first_ns != 0 && row.run.second_ns != 0) AddRow(columns, row, &table);
  };
  for (GpuDeviceIndex device : run.devices()) {
    for (PairRow& of_all : all) {
      const PairRow row = RowOf(run, device, of_all.pair);
      add(row);
      of_all.steady.Add(row.steady);
      of_all.run.Add(row.run);
    }
  }
  if (run.devices().size() > 1) absl::c_for_each(all, add);
  run.AddNotes(&table);
  return table;
}

absl::StatusOr<Table> OverlapOverTimeTable(const TraceModel& model, const TableOptions& options) {
  const RowsOverTime over_time = RowsOverTimeOf(model, options, !model.gpu.empty());
  CounterRows& rows = *over_time.rows;
  const TypedColumns<DeviceTimes> columns = OverlapOverTimeColumns(rows);
  Table table = NewTable("overlap_over_time",
                         "Copies, compute and communication on GPUs over time, and how they overlap", columns);
  if (model.gpu.empty()) return table;
  const GpuRun run(model, options);
  Limit intervals("intervals of devices", kMaxIntervals);
  for (GpuDeviceIndex device : run.devices()) {
    std::vector<int64_t> boundaries = rows.Boundaries(run.ProcessOf(device));
    boundaries.insert(boundaries.end(), {model.start_ns, model.end_ns});
    absl::c_sort(boundaries);
    intervals.Take(boundaries.size());
    for (auto& [row, times] : TimesOf(SetsOf(run, device), run.ProcessOf(device), boundaries, rows)) {
      times.row = &rows.rows()[row];
      times.device = run.LabelOf(device).device;
      AddRow(columns, times, &table);
    }
  }
  SortByStart(&table);
  run.AddNotes(&table);
  table.notes.insert(table.notes.end(), over_time.notes.begin(), over_time.notes.end());
  return table;
}

}  // namespace dlhook::analyzer::tables
