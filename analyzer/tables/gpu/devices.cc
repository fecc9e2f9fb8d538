// Table `devices`: what each GPU was busy with, one row per device and process.

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

Cell KnownRate(uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? Cell() : Cell(static_cast<double>(bytes_per_second) / 1e9);
}

Cell KnownCount(uint64_t count) {
  return count == 0 ? Cell() : Cell(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)));
}

std::string NameOf(const GpuDevice& device) {
  return absl::StrCat(device.name, device.is_partition && !device.name.empty() ? ", " : "",
                      device.is_partition ? "MIG instance" : "");
}

std::string LinkOf(const GpuDevice& device) {
  if (device.link_generation == 0) return "";
  return absl::StrCat("PCIe ", device.link_generation,
                      device.link_width == 0 ? "" : absl::StrCat(" x", device.link_width));
}

std::string SourceOf(const DeviceWork& work) {
  if (work.is_cupti && work.is_events) return "CUPTI, events";
  if (work.is_events) return "events";
  return work.is_cupti ? "CUPTI" : "";
}

struct DeviceRow {
  const GpuDevice& device;
  const DeviceWork& work;
  std::string rank;
  int64_t pid;
  int64_t steps;
  int64_t time_ns;
  std::string shared_with;
  int64_t busy_ns = work.Busy().total_ns();
  int64_t communication_ns = work.communication.total_ns();
  int64_t exposed_ns = work.ExposedCommunication().total_ns();
};

TypedColumns<DeviceRow> DevicesColumns(bool has_ranks, bool has_processes) {
  TypedColumns<DeviceRow> columns = {
      {TextColumn("rank"),
       "Of the process, as set by its launcher (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID).",
       Known(&DeviceRow::rank)},
      {ProcessColumn(has_processes), &DeviceRow::pid},
      {NumberColumn("device"), "CUDA's number of it in the process.",
       [](const DeviceRow& row) { return row.device.ordinal; }},
      {PercentColumn("busy", Better::kHigher), "Part of the time in which the device was busy.",
       [](const DeviceRow& row) { return Percent(row.busy_ns, row.time_ns); }},
      {TimeColumn("compute", "Time in which it computed; overlapping kernels count once."),
       [](const DeviceRow& row) { return row.work.compute.total_ns(); }},
      {TimeColumn("copy", "Time in which it copied or set memory; overlapping ones count once."),
       [](const DeviceRow& row) { return row.work.copy.total_ns(); }},
      {TimeColumn("communication", "Time in which kernels of collectives ran, waiting for other ranks included."),
       &DeviceRow::communication_ns},
      {TimeColumn("exposed_communication", "Communication while this process computed nothing on the device."),
       &DeviceRow::exposed_ns},
      {PercentColumn("comm_overlap", Better::kHigher), "Part of the communication that overlapped with compute.",
       [](const DeviceRow& row) { return Percent(row.communication_ns - row.exposed_ns, row.communication_ns); }},
      {TimeColumn("idle", "Time without work for this process: busy and idle add up to the time."),
       [](const DeviceRow& row) { return row.time_ns - row.busy_ns; }},
      {NumberColumn("steps"), "Steady steps that the row covers; not known: it covers the whole process.",
       [](const DeviceRow& row) { return row.steps == 0 ? Cell() : Cell(row.steps); }},
      {TimeColumn("time", "Of these steps, as far as GPU times were measured."), &DeviceRow::time_ns},
      {TextColumn("source"),
       "Where the times come from: CUPTI, or pairs of events (of whole calls, at most 0.5 us exact).",
       [](const DeviceRow& row) { return KnownText(SourceOf(row.work)); }},
      {TextColumn("name"), "What it is.", [](const DeviceRow& row) { return KnownText(NameOf(row.device)); }},
      {Detail(NumberColumn("kernels")), "Activities that began in the time; by events: operations.",
       [](const DeviceRow& row) { return row.work.kernels; }},
      {Detail(NumberColumn("copies")), "Copies and sets that began in the time.",
       [](const DeviceRow& row) { return row.work.copies; }},
      {Detail(IntegerColumn("copied_bytes", "bytes", Better::kLower)), "Of these copies and sets.",
       [](const DeviceRow& row) { return row.work.copied_bytes; }},
      {Detail(TextColumn("shared_with")),
       "Other processes of the run that used the same device: their work is not in this row.",
       Known(&DeviceRow::shared_with)},
      {Detail(TextColumn("link")), "To the host: PCIe generation and lanes.",
       [](const DeviceRow& row) { return KnownText(LinkOf(row.device)); }},
      {Detail(RealColumn("link_rate", "GB/s", Better::kNeither)), "Peak of that link in one direction.",
       [](const DeviceRow& row) { return KnownRate(row.device.link_bytes_per_second); }},
      {Detail(RealColumn("memory_rate", "GB/s", Better::kNeither)), "Peak of the device's own memory.",
       [](const DeviceRow& row) { return KnownRate(row.device.memory_bytes_per_second); }},
      {Detail(IntegerColumn("memory", "bytes", Better::kNeither)), "Of the device.",
       [](const DeviceRow& row) { return KnownCount(row.device.memory_bytes); }},
      {Detail(NumberColumn("multiprocessors")), "Of the device.",
       [](const DeviceRow& row) { return KnownCount(row.device.multiprocessors); }},
      {Detail(TextColumn("uuid")), "Of the device; that of a MIG instance is its own.",
       [](const DeviceRow& row) { return KnownText(row.device.uuid); }},
  };
  columns.Find("rank")->detail = !has_ranks;
  return columns;
}

using UsersOfDevices = std::map<std::string, std::vector<ProcessIndex>>;  // by uuid

std::string Labels(const TraceModel& model, const std::vector<ProcessIndex>& users, ProcessIndex without = kNone) {
  std::vector<std::string> labels;
  for (const ProcessIndex user : users) {
    if (user != without) labels.push_back(ProcessLabel(model, user));
  }
  return absl::StrJoin(labels, ", ");
}

void AddNotes(const TraceModel& model, const UsersOfDevices& users_of, const std::vector<MeasuredTime>& times,
              const std::vector<DeviceWork>& works, Table* table) {
  for (const auto& [uuid, users] : users_of) {
    if (users.size() < 2) continue;
    table->Note(Labels(model, users), " share the device ", uuid,
                ": what one does is in its own row alone, idle time of the other may be work "
                "of it.");
  }
  for (ProcessIndex i = 0; i < times.size(); ++i) {
    const bool has_work =
        absl::c_any_of(works, [&](const DeviceWork& work) { return model.gpu_devices[work.device].process == i; });
    const int64_t missing_ns = times[i].duration_ns - times[i].time.total_ns();
    // Before the first CUDA call there is nothing to measure.
    if (!has_work || times[i].steps == 0 || missing_ns == 0) continue;
    table->Note(ProcessLabel(model, i), ": of its steady steps ", HumanTime(missing_ns),
                " are left out: times of GPUs were not measured all through them.");
  }
}

}  // namespace

absl::StatusOr<Table> DevicesTable(const TraceModel& model, const TableOptions& options) {
  const TypedColumns<DeviceRow> columns = DevicesColumns(HasRanks(model), model.processes.size() > 1);
  Table table = NewTable("devices", "What GPUs were busy with", columns);
  if (model.gpu.empty()) return table;  // finding steps takes time
  const std::vector<MeasuredTime> times = MeasuredTimes(model, options.analysis->steps());
  const std::vector<DeviceWork> works = WorkOfDevices(model, times);
  UsersOfDevices users_of;
  for (const DeviceWork& work : works) {
    const GpuDevice& device = model.gpu_devices[work.device];
    if (!device.uuid.empty()) users_of[device.uuid].push_back(device.process);
  }
  for (const ProcessIndex process : ByRank(model)) {
    for (const DeviceWork& work : works) {
      const GpuDevice& device = model.gpu_devices[work.device];
      if (device.process != process) continue;
      AddRow(columns,
             {device, work, RankOf(model.processes[process]), int64_t{model.processes[process].pid},
              times[process].steps, times[process].time.total_ns(), Labels(model, users_of[device.uuid], process)},
             &table);
    }
  }
  AddNotes(model, users_of, times, works, &table);
  return table;
}

}  // namespace dlhook::analyzer::tables
