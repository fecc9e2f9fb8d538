#include "analyzer/tables/gpu/gpu_tables.h"

#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr double kLagPart = 0.2;  // of the work of steady steps, done outside their time; above this a note says so

const auto& kNoSteps = *new std::vector<StepTrack>;

}  // namespace

TypedColumns<DeviceLabel> GpuLabelColumns(bool has_processes) {
  return {{ProcessColumn(has_processes), &DeviceLabel::process},
          {As(Role::kKey, TextColumn("device")), "CUDA's number of it in the process; all: of all devices together.",
           &DeviceLabel::device},
          {Detail(TextColumn("name")), "What device it is.", Known(&DeviceLabel::name)}};
}

GpuRun::GpuRun(const TraceModel& model, const TableOptions& options)
    : GpuRun(model, model.gpu.empty() ? kNoSteps : options.analysis->steps()) {}  // finding steps takes time

GpuRun::GpuRun(const TraceModel& model, const std::vector<StepTrack>& steps)
    : model_(model), timelines_(GpuTimelines(model)), steady_(MeasuredTimes(model, steps)) {
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    const ProcessInfo& info = model.processes[process];
    whole_.push_back(IntervalSet({{info.start_ns, info.end_ns}}).Difference(GpuBlindTime(model, process)));
  }
  for (GpuDeviceIndex device = 0; device < timelines_.size(); ++device) {
    if (!timelines_[device].busy.empty()) devices_.push_back(device);
  }
}

bool GpuRun::HasSeveralProcesses() const {
  return absl::c_any_of(devices_,
                        [&](GpuDeviceIndex device) { return ProcessOf(device) != ProcessOf(devices_.front()); });
}

DeviceLabel GpuRun::LabelOf(GpuDeviceIndex device) const {
  const GpuDevice& info = model_.gpu_devices[device];
  return {static_cast<int64_t>(model_.processes[info.process].pid), absl::StrCat(info.ordinal), info.name};
}

std::string GpuRun::NameOf(GpuDeviceIndex device) const {
  const std::string name = absl::StrCat("device ", model_.gpu_devices[device].ordinal);
  return HasSeveralProcesses() ? absl::StrCat(name, " of ", ProcessLabel(model_, ProcessOf(device))) : name;
}

std::string GpuRun::TimeNote(ProcessIndex process) const {
  const MeasuredTime& time = steady_[process];
  const std::string label = ProcessLabel(model_, process);
  if (time.steps == 0) return absl::StrCat(label, ": no steady steps were found; all its time counts.");
  const int64_t unmeasured_ns = time.duration_ns - time.time.total_ns();
  const int64_t left_out = time.all_steps - time.steps;
  const int64_t of_steps_ns = left_out > 0 ? time.time.total_ns() : time.duration_ns;
  std::string note = absl::StrCat(label, ": ", SteadySteps(time.steps, time.kind, time.sort), ", ",
                                  HumanTime(of_steps_ns), ".", time.left_out.Sentence());
  if (left_out > 0) {
    absl::StrAppend(&note, " Without ", left_out, " more in which GPUs were not measured all the time.");
  } else if (unmeasured_ns > 0) {
    absl::StrAppend(&note, " ", HumanTime(unmeasured_ns), " of it are left out: GPUs were not measured then.");
  }
  return note;
}

// Steps are the host's, which may run far ahead of its GPUs.
std::string GpuRun::LagNote(ProcessIndex process) const {
  const IntervalSet& time = steady_[process].time;
  if (steady_[process].steps == 0) return "";
  int64_t requested_ns = 0, outside_ns = 0;
  for (GpuIndex activity = 0; activity < model_.gpu.size(); ++activity) {
    if (ProcessOf(model_.gpu.device[activity]) != process) continue;
    const int64_t at_ns = GpuAskedNs(model_, activity), start_ns = model_.gpu.start_ns[activity],
                  end_ns = model_.gpu.end_ns[activity];
    if (time.CoveredNs(at_ns, at_ns + 1) == 0) continue;
    requested_ns += end_ns - start_ns;
    outside_ns += end_ns - start_ns - time.CoveredNs(start_ns, end_ns);
  }
  if (outside_ns <= kLagPart * static_cast<double>(requested_ns)) return "";
  return absl::StrFormat(
      "%s: %.0f %% of the work that steady steps launched ran outside of their time: the host was ahead of the GPU. "
      "GPU work is counted here by when it ran, not by which step launched it.",
      ProcessLabel(model_, process), 100.0 * static_cast<double>(outside_ns) / static_cast<double>(requested_ns));
}

void GpuRun::AddNotes(Table* table) const {
  if (model_.gpu.empty()) return;
  std::vector<std::string>& notes = table->notes;
  std::vector<bool> is_told(model_.processes.size());
  for (GpuDeviceIndex device : devices_) {
    if (is_told[ProcessOf(device)]) continue;
    is_told[ProcessOf(device)] = true;
    notes.push_back(TimeNote(ProcessOf(device)));
    const std::string lag = LagNote(ProcessOf(device));
    if (!lag.empty()) notes.push_back(lag);
  }
  int64_t lost = 0;
  for (const ProcessInfo& process : model_.processes) {
    for (const Loss& loss : process.losses) {
      lost += CountsGpuRecords(loss.reason) ? static_cast<int64_t>(loss.calls) : 0;
    }
  }
  if (lost > 0) {
    notes.push_back(
        absl::StrCat(lost, " activities of GPUs were lost (table summary): time shown as idle may have been busy."));
  }
  const auto& sources = model_.gpu.source;
  if (absl::c_linear_search(sources, GpuTimeSource::kEvents)) {
    notes.emplace_back(
        "Times are of pairs of CUDA events around whole calls, not of kernels: work between a call's kernels, or "
        "without a call, is not observed.");
  }
}

}  // namespace dlhook::analyzer::tables
