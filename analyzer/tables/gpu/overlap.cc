// Table `overlap`: what runs at the same time on each GPU.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/tables/columns.h"
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
      {As(Role::kKey,
          TextColumn("work",
                     "Compute: kernels but those of collectives; communication: those; copies: without memset.")),
       [](const PairRow& row) { return row.pair.work; }},
      {As(Role::kKey, TextColumn("beside", "The concurrent work; the same kind again: two or more of them at once.")),
       [](const PairRow& row) { return row.pair.beside; }},
      {time("time", Better::kHigher,
            "In which both ran, in a mean steady step (without steps: in all); each instant counts once. By the GPU's "
            "time: work that a step requested may run in the next one's time."),
       [](const PairRow& row) { return Mean(row.sums.steady.both_ns, row.steps); }},
      {PercentColumn("percent", Better::kHigher,
                     "As a part of the smaller side's time, so of the overlap that is possible."),
       [](const PairRow& row) { return row.sums.steady.Possible(); }},
      {PercentColumn("work_percent", Better::kHigher, "As a part of the time in which the first side ran."),
       [](const PairRow& row) { return Percent(row.sums.steady.both_ns, row.sums.steady.first_ns); }},
      {PercentColumn("beside_percent", Better::kHigher, "As a part of the time in which the second side ran."),
       [](const PairRow& row) { return Percent(row.sums.steady.both_ns, row.sums.steady.second_ns); }},
      {time("work_time", Better::kNeither, "In which the first side ran, in a mean steady step."),
       [](const PairRow& row) { return Mean(row.sums.steady.first_ns, row.steps); }},
      {time("beside_time", Better::kNeither, "In which the second side ran, in a mean steady step."),
       [](const PairRow& row) { return Mean(row.sums.steady.second_ns, row.steps); }},
      {Detail(time("steady_time", Better::kHigher, "In which both ran, in all steady steps.")),
       [](const PairRow& row) { return row.sums.steady.both_ns; }},
      {Detail(time("run_time", Better::kHigher, "In which both ran, in the whole run, as far as GPUs were measured.")),
       [](const PairRow& row) { return row.sums.run.both_ns; }},
      {Detail(PercentColumn("run_percent", Better::kHigher,
                            "The same as a part of the smaller side's time in the whole run.")),
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
    if (std::find(seen.begin(), seen.end(), run.ProcessOf(device)) != seen.end()) continue;
    seen.push_back(run.ProcessOf(device));
    steps += run.Steps(device);
  }
  return steps;
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

}  // namespace dlhook::analyzer::tables
