// Shared by the tables of GPUs over time: which devices and which time they cover, and their notes.
#pragma once

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/steps/phases.h"
#include "analyzer/table/table.h"
#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline tables {

// How a row names its device. The default: all devices.
struct DeviceLabel {
  std::optional<int64_t> process;  // its id
  std::string device = "all";      // CUDA's number
  std::string name;
};

TypedColumns<DeviceLabel> GpuLabelColumns(bool has_processes);

// In the table gpu_idle, what the device did (the column "during"): work beside kernels that the network needs, and
// none although there was some.
inline constexpr char kDeviceWorkLabel[] = "copies on the device, memset";
inline constexpr char kNotSeenLabel[] = "not seen: native code or Python";
inline constexpr char kNotStartedLabel[] = "launched, not started";

// The devices of a run that did something.
class GpuRun {
 public:
  GpuRun(const TraceModel& model, const TableOptions& options);
  GpuRun(const TraceModel& model, const std::vector<StepTrack>& steps);

  const std::vector<GpuDeviceIndex>& devices() const { return devices_; }
  const GpuTimeline& TimelineOf(GpuDeviceIndex device) const { return timelines_[device]; }
  const std::vector<GpuTimeline>& timelines() const { return timelines_; }
  // The time of the process that the tables cover: its steady steps, or all of it if it has none.
  const IntervalSet& SteadyTime(GpuDeviceIndex device) const { return steady_[ProcessOf(device)].time; }
  int64_t Steps(GpuDeviceIndex device) const { return steady_[ProcessOf(device)].steps; }  // 0: none
  int64_t StepsOrOne(GpuDeviceIndex device) const { return std::max<int64_t>(Steps(device), 1); }
  const IntervalSet& RunTime(GpuDeviceIndex device) const { return whole_[ProcessOf(device)]; }
  ProcessIndex ProcessOf(GpuDeviceIndex device) const { return model_.gpu_devices[device].process; }

  bool HasSeveralProcesses() const;
  DeviceLabel LabelOf(GpuDeviceIndex device) const;
  // For sentences: "device 0", or "device 0 of process 4711" in runs with several processes.
  std::string NameOf(GpuDeviceIndex device) const;
  // What the tables do not cover, and how exact they are.
  void AddNotes(Table* table) const;

 private:
  std::string TimeNote(ProcessIndex process) const;
  std::string LagNote(ProcessIndex process) const;

  const TraceModel& model_;
  const std::vector<GpuTimeline> timelines_;
  const std::vector<MeasuredTime> steady_;  // by process
  std::vector<IntervalSet> whole_;          // by process
  std::vector<GpuDeviceIndex> devices_;
};

// What GPU work was done for: the library's op ("convolution backward-data"), else the framework's ("aten::add_"), else
// "application" for a call outside both, "not known" if no hook saw the call.
std::string GpuAskerOf(const TraceModel& model, GpuIndex activity);

// For each activity: whether it is the first launch of its kernel in its process, which also loads the kernel (CUDA's
// lazy loading).
std::vector<bool> FirstLaunches(const TraceModel& model);

}  // namespace dlhook::analyzer::tables
