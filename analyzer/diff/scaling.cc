#include "analyzer/diff/scaling.h"

#include "analyzer/diff/diff_table.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline diff {
namespace {

// The processes with steps of the most common kind.
std::vector<ProcessIndex> MainProcesses(const std::vector<MeasuredTime>& times) {
  std::map<StepKind, std::vector<ProcessIndex>> kinds;
  for (ProcessIndex i = 0; i < times.size(); ++i) {
    if (times[i].steps > 0) kinds[times[i].kind].push_back(i);
  }
  std::vector<ProcessIndex> processes;
  for (const auto& [kind, of_kind] : kinds) {
    if (of_kind.size() > processes.size()) processes = of_kind;
  }
  return processes;
}

// A device's CUDA UUID if known; else devices of different processes are taken as different.
std::string IdentityOf(const TraceModel& model, const GpuDevice& device) {
  if (!device.uuid.empty()) return device.uuid;
  return absl::StrCat(model.processes[device.process].host, "/", device.process, "/", device.ordinal);
}

void AddDevices(const TraceModel& model, const std::vector<MeasuredTime>& times,
                const std::vector<ProcessIndex>& processes, ScalingRun& run) {
  std::set<std::string> devices;
  double rows = 0;
  for (const DeviceWork& work : WorkOfDevices(model, times)) {
    const GpuDevice& device = model.gpu_devices[work.device];
    const MeasuredTime& time = times[device.process];
    if (!absl::c_linear_search(processes, device.process) || time.time.empty()) continue;
    devices.insert(IdentityOf(model, device));
    // Assumes that the part without measurements was like the rest.
    const double step_ns = static_cast<double>(time.duration_ns) / static_cast<double>(time.all_steps);
    const double scale = step_ns / static_cast<double>(time.time.total_ns());
    const auto busy_ns = work.Busy().total_ns();
    run.compute_ns += scale * static_cast<double>(work.compute.total_ns());
    run.communication_ns += scale * static_cast<double>(work.communication.total_ns());
    run.exposed_communication_ns += scale * static_cast<double>(work.ExposedCommunication().total_ns());
    run.exposed_copy_ns += scale * static_cast<double>(work.ExposedCopy().total_ns());
    run.idle_ns += scale * static_cast<double>(time.time.total_ns() - busy_ns);
    ++rows;
  }
  run.has_gpu_times = rows > 0;
  run.devices = rows > 0 ? std::ssize(devices) : run.processes;
  if (rows == 0) return;
  for (double* ns :
       {&run.compute_ns, &run.communication_ns, &run.exposed_communication_ns, &run.exposed_copy_ns, &run.idle_ns})
    *ns /= rows;
}

class Comparison {
 public:
  Comparison(const std::vector<ScalingRun>& runs, ScalingKind kind)
      : base_(runs.empty() ? ScalingRun() : runs.front()), kind_(kind) {
    has_batches_ = absl::c_all_of(runs, [](const ScalingRun& run) { return run.batch > 0; });
  }

  // Work per step of this run relative to the base. nullopt: not known.
  std::optional<double> WorkOf(const ScalingRun& run) const {
    if (kind_ == ScalingKind::kStrong) return 1.0;
    if (kind_ == ScalingKind::kWeak) return static_cast<double>(run.devices) / static_cast<double>(base_.devices);
    if (!has_batches_) return std::nullopt;
    return static_cast<double>(run.batch) / static_cast<double>(base_.batch);
  }

  std::optional<double> SpeedUp(const ScalingRun& run) const {
    const std::optional<double> work = WorkOf(run);
    return work ? std::optional(*work * base_.step_ns / run.step_ns) : std::nullopt;
  }

  std::optional<double> Efficiency(const ScalingRun& run) const {
    const std::optional<double> times = SpeedUp(run);
    return times ? std::optional(100.0 * *times / DevicesOf(run)) : std::nullopt;
  }

  std::optional<int64_t> Lost(const ScalingRun& run) const {
    const std::optional<double> work = WorkOf(run);
    if (!work) return std::nullopt;
    const double ideal_ns = base_.step_ns * *work / DevicesOf(run);
    return std::max<int64_t>(0, Rounded(run.step_ns - ideal_ns));
  }

  Cell Grew(const ScalingRun& run) const {
    const std::optional<double> work = WorkOf(run);
    return work ? GrewOf(run, *work / DevicesOf(run)) : Cell();
  }

 private:
  double DevicesOf(const ScalingRun& run) const {
    return static_cast<double>(run.devices) / static_cast<double>(base_.devices);
  }

  // `share`: the device's share of the base's work. Parts below a percent of the step are not reported.
  Cell GrewOf(const ScalingRun& run, double share) const {
    if (!run.has_gpu_times || !base_.has_gpu_times) return Cell();
    std::vector<std::pair<double, const char*>> parts = {
        {run.compute_ns - share * base_.compute_ns, "compute"},
        {run.exposed_communication_ns - share * base_.exposed_communication_ns, "exposed communication"},
        {run.exposed_copy_ns - share * base_.exposed_copy_ns, "copies"},
        {run.idle_ns - share * base_.idle_ns, "idle"}};
    absl::c_stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (const auto& [ns, name] : parts) {
      if (ns < 0.01 * run.step_ns) continue;
      absl::StrAppend(&text, text.empty() ? "" : ", ", name, " +", HumanTime(Rounded(ns)));
    }
    return text.empty() ? Cell() : Cell(text);
  }

  const ScalingRun base_;
  const ScalingKind kind_;
  bool has_batches_ = false;
};

TypedColumns<ScalingRun> Columns(const Comparison& comparison) {
  const auto part = [](double ScalingRun::*ns) {
    return [ns](const ScalingRun& run) { return run.has_gpu_times ? Cell(100.0 * (run.*ns) / run.step_ns) : Cell(); };
  };
  const auto time = [](double ScalingRun::*ns) {
    return [ns](const ScalingRun& run) { return run.has_gpu_times ? Cell(Rounded(run.*ns)) : Cell(); };
  };
  return {
      {TextColumn("run"), "Its folder or file.", &ScalingRun::name},
      {IntegerColumn("devices", "", Better::kNeither),
       "GPUs used, each counted once; without GPU times: processes with steps.", &ScalingRun::devices},
      {Detail(IntegerColumn("processes", "", Better::kNeither)), "That have steady steps.", &ScalingRun::processes},
      {Detail(IntegerColumn("steps", "", Better::kNeither)), "Steady steps of all processes; the row is their mean.",
       &ScalingRun::steps},
      {IntegerColumn("batch", "", Better::kNeither),
       "Samples of a step of all processes together; each is taken to have a batch of its own.",
       [](const ScalingRun& run) { return run.batch > 0 ? Cell(run.batch) : Cell(); }},
      {IntegerColumn("step_time", "ns", Better::kLower), "Of a mean steady step.",
       [](const ScalingRun& run) { return Rounded(run.step_ns); }},
      {RealColumn("steps_per_second", "1/s", Better::kHigher), "Steps of one process.",
       [](const ScalingRun& run) { return 1e9 / run.step_ns; }},
      {RealColumn("samples_per_second", "1/s", Better::kHigher), "Batch over step time.",
       [](const ScalingRun& run) {
         return run.batch > 0 ? Cell(static_cast<double>(run.batch) * (1e9 / run.step_ns)) : Cell();
       }},
      {RealColumn("speed_up", "", Better::kHigher), "Work per second over that of the first row.",
       [&comparison](const ScalingRun& run) { return comparison.SpeedUp(run); }},
      {Within(Range::kNotNegative, RealColumn("efficiency", "%", Better::kHigher)),
       "Speed-up divided by the factor in devices; above 100 where more caches or less work per device more than "
       "compensate.",
       [&comparison](const ScalingRun& run) { return comparison.Efficiency(run); }},
      {RealColumn("communication", "%", Better::kLower),
       "Part of a step in which kernels of collectives ran; mean over devices.", part(&ScalingRun::communication_ns)},
      {RealColumn("exposed_communication", "%", Better::kLower),
       "Part of a step with communication and no concurrent compute.", part(&ScalingRun::exposed_communication_ns)},
      {RealColumn("idle", "%", Better::kLower), "Part of a step in which a device was idle.",
       part(&ScalingRun::idle_ns)},
      {IntegerColumn("lost", "ns", Better::kLower),
       "How much longer a step takes than the first row's would with the same work per device (never below 0).",
       [&comparison](const ScalingRun& run) { return comparison.Lost(run); }},
      {TextColumn("grew"),
       "What the lost time consists of, largest first; together with what shrank it is the lost time.",
       [&comparison](const ScalingRun& run) { return comparison.Grew(run); }},
      {Detail(IntegerColumn("compute_time", "ns", Better::kLower)), "In a mean step of a device.",
       time(&ScalingRun::compute_ns)},
      {Detail(IntegerColumn("exposed_communication_time", "ns", Better::kLower)), "Likewise.",
       time(&ScalingRun::exposed_communication_ns)},
      {Detail(IntegerColumn("exposed_copy_time", "ns", Better::kLower)), "Likewise: copies while nothing else runs.",
       time(&ScalingRun::exposed_copy_ns)},
      {Detail(IntegerColumn("idle_time", "ns", Better::kLower)), "Likewise: these four add up to the step.",
       time(&ScalingRun::idle_ns)},
  };
}

std::string KindNote(const std::vector<ScalingRun>& runs, ScalingKind kind) {
  if (kind == ScalingKind::kStrong) return "Strong scaling, as requested: a step is the same work in every run.";
  if (kind == ScalingKind::kWeak)
    return "Weak scaling, as requested: a step is the same work for each device in every run.";
  const ScalingRun& base = runs.front();
  const auto all = [&](auto is) { return absl::c_all_of(runs, is); };
  if (!all([](const ScalingRun& run) { return run.batch > 0; })) {
    return "The batch size of some runs is not known, so neither are speed-up and efficiency: use --kind strong or "
           "--kind weak.";
  }
  if (all([&](const ScalingRun& run) { return run.batch == base.batch; }))
    return "Strong scaling: the same batch in every run.";
  const bool is_weak = all([&](const ScalingRun& run) { return run.batch * base.devices == base.batch * run.devices; });
  return is_weak ? "Weak scaling: the same batch for each device in every run."
                 : "Batches are neither the same in every run nor the same for each device, so work per second is "
                   "compared.";
}

}  // namespace

absl::StatusOr<ScalingRun> MeasureScaling(const TraceModel& model, const std::vector<StepTrack>& steps) {
  const std::vector<MeasuredTime> times = MeasuredTimes(model, steps);
  const std::vector<ProcessIndex> processes = MainProcesses(times);
  if (processes.empty()) return absl::FailedPreconditionError("no steady steps were found in it");
  ScalingRun run;
  run.name = model.name;
  run.kind = times[processes.front()].kind;
  run.processes = std::ssize(processes);
  bool has_batches = true;
  for (const ProcessIndex process : processes) {
    const MeasuredTime& time = times[process];
    run.steps += time.all_steps;
    run.step_ns += static_cast<double>(time.duration_ns) / static_cast<double>(time.all_steps * run.processes);
    run.batch += time.batch;
    has_batches = has_batches && time.batch > 0;
  }
  if (!has_batches) run.batch = 0;
  AddDevices(model, times, processes, run);
  return run;
}

Table ScalingTable(std::vector<ScalingRun> runs, ScalingKind kind) {
  std::ranges::stable_sort(runs, {}, &ScalingRun::devices);
  const Comparison comparison(runs, kind);
  Table table = NewTable("scaling", "How the program scales", Columns(comparison), runs);
  if (runs.empty()) return table;
  table.notes.push_back(KindNote(runs, kind));
  const bool has_times = absl::c_all_of(runs, [](const ScalingRun& run) { return run.has_gpu_times; });
  if (!has_times)
    table.Note("In runs without GPU times, processes are counted as devices, and where the time went is not known.");
  const auto is_other = [&](const ScalingRun& run) { return run.kind != runs.front().kind; };
  if (absl::c_any_of(runs, is_other)) {
    table.Note("The steps of these runs are not of the same kind (training, inference): they may not be comparable.");
  }
  return table;
}

}  // namespace dlhook::analyzer::diff
