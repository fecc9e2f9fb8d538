#include "analyzer/gpu/gpu_busy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/layers/gpu_places.h"
#include "analyzer/steps/step_groups.h"

namespace dlhook::analyzer::inline gpu {
namespace {

constexpr size_t kWorks = 3;  // compute, copy, communication

// The most relevant kind: training, else inference; what repeats during set-up may take longer.
int Telling(StepKind kind) {
  switch (kind) {
    case StepKind::kTraining:
      return 3;
    case StepKind::kInference:
      return 2;
    case StepKind::kValidation:
      return 1;
    default:
      return 0;
  }
}

IntervalSet TimeOf(const std::vector<const Step*>& steps) {
  std::vector<Interval> spans;
  for (const Step* step : steps) spans.push_back({step->start_ns, step->end_ns});
  return IntervalSet(std::move(spans));
}

std::vector<const Step*> MeasuredSteps(const std::vector<const Step*>& steps, const IntervalSet& blind) {
  std::vector<const Step*> measured = steps;
  std::erase_if(measured, [&](const Step* step) { return blind.CoveredNs(step->start_ns, step->end_ns) > 0; });
  return measured.empty() ? steps : measured;
}

int64_t CommonBatch(const std::vector<const Step*>& steps) {
  const int64_t batch = steps.front()->samples;
  const bool is_common =
      std::all_of(steps.begin(), steps.end(), [&](const Step* step) { return step->samples == batch; });
  return is_common ? batch : 0;
}

}  // namespace

std::vector<MeasuredTime> MeasuredTimes(const TraceModel& model, const std::vector<StepTrack>& steps) {
  std::vector<MeasuredTime> times(model.processes.size());
  std::vector<StepGroup> groups = GroupSteps(steps);  // most time first
  std::stable_sort(groups.begin(), groups.end(),
                   [](const StepGroup& a, const StepGroup& b) { return Telling(a.kind) > Telling(b.kind); });
  for (const StepGroup& group : groups) {
    MeasuredTime& time = times[group.process];
    if (time.steps > 0) continue;
    const std::vector<const Step*> measured = MeasuredSteps(group.steady, GpuBlindTime(model, group.process));
    time.kind = group.kind;
    time.sort = group.sort;
    time.steps = static_cast<int64_t>(measured.size());
    time.batch = CommonBatch(measured);
    time.time = TimeOf(measured);
    time.all_steps = static_cast<int64_t>(group.steady.size());
    time.duration_ns = TimeOf(group.steady).total_ns();
    time.left_out = group.left_out;
  }
  for (ProcessIndex i = 0; i < times.size(); ++i) {
    const ProcessInfo& process = model.processes[i];
    if (times[i].steps == 0) {
      times[i].time = IntervalSet({{process.start_ns, process.end_ns}});
      times[i].duration_ns = times[i].time.total_ns();
    }
    times[i].time = times[i].time.Difference(GpuBlindTime(model, i));
  }
  return times;
}

std::vector<DeviceWork> WorkOfDevices(const TraceModel& model, const std::vector<MeasuredTime>& times) {
  std::vector<DeviceWork> works;
  std::map<GpuDeviceIndex, std::array<std::vector<Interval>, kWorks>> spans;
  std::map<GpuDeviceIndex, DeviceWork> devices;
  const GpuActivityColumns& gpu = model.gpu;
  for (GpuIndex i = 0; i < gpu.size(); ++i) {
    const GpuDeviceIndex device = gpu.device[i];
    DeviceWork& work = devices[device];
    const IntervalSet& time = times[model.gpu_devices[device].process].time;
    spans[device][static_cast<size_t>(GpuWorkOf(model, i))].push_back({gpu.start_ns[i], gpu.end_ns[i]});
    (gpu.source[i] == GpuTimeSource::kEvents ? work.is_events : work.is_cupti) = true;
    if (time.CoveredNs(gpu.start_ns[i], gpu.start_ns[i] + 1) == 0) continue;
    const bool is_copy = gpu.kind[i] == GpuActivityKind::kCopy || gpu.kind[i] == GpuActivityKind::kSet;
    ++(is_copy ? work.copies : work.kernels);
    work.copied_bytes += is_copy ? static_cast<int64_t>(gpu.bytes[i]) : 0;
  }
  for (auto& [device, work] : devices) {
    const IntervalSet& time = times[model.gpu_devices[device].process].time;
    work.device = device;
    IntervalSet* const kSets[kWorks] = {&work.compute, &work.copy, &work.communication};
    for (size_t i = 0; i < kWorks; ++i) *kSets[i] = IntervalSet(std::move(spans[device][i])).Intersection(time);
    works.push_back(std::move(work));
  }
  return works;
}

std::vector<ProcessIndex> ByRank(const TraceModel& model) {
  std::vector<std::pair<int64_t, ProcessIndex>> order;
  for (ProcessIndex i = 0; i < model.processes.size(); ++i) {
    int64_t rank = 0;
    order.emplace_back(absl::SimpleAtoi(RankOf(model.processes[i]), &rank) ? rank : INT64_MAX, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<ProcessIndex> processes;
  for (const auto& [rank, process] : order) processes.push_back(process);
  return processes;
}

}  // namespace dlhook::analyzer::gpu
