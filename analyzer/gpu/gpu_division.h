// Divides the time of a GPU exactly: every nanosecond equally among the activities that run in it, the rest is idle.
// Integer nanoseconds; the parts and the idle time add up to the time of the device. The same as DivideTime for
// threads.
#pragma once

#include "analyzer/steps/compared_steps.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

// What GPUs did in the time that their tables cover: steady steps, while GPU times were measured.

// For one process: its steady training steps, else those of inference or validation, else others (GroupSteps); if it
// has none, the whole process. Only steps that were measured throughout, so that means cover whole steps; if there are
// none, the measured parts of all.
struct MeasuredTime {
  StepKind kind = StepKind::kUnknown;
  std::string sort;         // Step.sort
  int64_t steps = 0;        // 0: none; `time` covers the whole process
  int64_t batch = 0;        // of these steps, if it is the same for all; else 0
  IntervalSet time;         // of these steps (or the process), as far as GPUs were measured
  int64_t all_steps = 0;    // including those left out because GPUs were not measured throughout
  int64_t duration_ns = 0;  // of all_steps (or the process)
  LeftOutSteps left_out;    // besides
};
// By process.
std::vector<MeasuredTime> MeasuredTimes(const TraceModel& model, const std::vector<StepTrack>& steps);

// What one device did for one process in its measured time. Work that crosses its bounds is cut there.
struct DeviceWork {
  GpuDeviceIndex device = 0;
  IntervalSet compute;
  IntervalSet copy;
  IntervalSet communication;
  int64_t kernels = 0;  // that began in that time; with times from events: operations
  int64_t copies = 0;   // and memsets
  int64_t copied_bytes = 0;
  bool is_cupti = false;  // sources of its times over the whole run
  bool is_events = false;

  IntervalSet Busy() const { return compute.Union(copy).Union(communication); }
  IntervalSet ExposedCommunication() const { return communication.Difference(compute); }
  // Copies that nothing else overlaps.
  IntervalSet ExposedCopy() const { return copy.Difference(compute.Union(communication)); }
};
// One per device that did something in the run, in the order of model.gpu_devices.
std::vector<DeviceWork> WorkOfDevices(const TraceModel& model, const std::vector<MeasuredTime>& times);

// Ascending by rank (numerically), processes without a rank last; stable.
std::vector<ProcessIndex> ByRank(const TraceModel& model);

// A piece of time in which the device's activities do not change, with this activity's exact part of it.
struct GpuTimePiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t share_ns = 0;       // parts of one piece add up to its length
  GpuIndex activity = kNone;  // kNone: nothing runs
};

// Calls `take` for every part of every piece of `time`, in order of time. O(n log n) in the device's activities, times
// the number of concurrent ones.
void DivideGpuTime(const TraceModel& model, GpuDeviceIndex device, const IntervalSet& time,
                   const std::function<void(const GpuTimePiece&)>& take);

// The activities [first, second) of a device.
std::pair<GpuIndex, GpuIndex> GpuRangeOf(const TraceModel& model, GpuDeviceIndex device);

// Time in which this process's GPUs were not measured (GPU_TIME_NONE, or before the first window) or recording was
// stopped: work that is requested then is not told. Of a process without windows only the latter.
IntervalSet GpuUnmeasuredTime(const TraceModel& model, ProcessIndex process);

// A GPU that seems idle then need not be: in that time, and after it until the first work that is told began, if it had to
// wait, because what was requested before is not told.
IntervalSet GpuBlindTime(const TraceModel& model, ProcessIndex process);

// What each GPU did over the whole run, by kind of work.
// For one device as used by one process. Copies do not include memsets: during a memset the device is busy, but with
// none of these kinds.
struct GpuTimeline {
  IntervalSet compute;  // kernels, ops and graphs, except communication
  IntervalSet communication;
  IntervalSet copies;
  IntervalSet to_device;      // of the copies
  IntervalSet from_device;    // of the copies
  IntervalSet busy;           // anything at all
  IntervalSet compute_twice;  // two kernels at once
  IntervalSet copies_twice;   // two copies at once
};

// By GpuDeviceIndex; empty sets for devices that did nothing.
std::vector<GpuTimeline> GpuTimelines(const TraceModel& model);

// When a device of this process is busy for other processes that share it (same uuid).
IntervalSet BusyForOthers(const TraceModel& model, const std::vector<GpuTimeline>& timelines, GpuDeviceIndex device);

// The length of `set` within `time`.
int64_t CoveredIn(const IntervalSet& set, const IntervalSet& time);

// How many of a multiprocessor's warps a kernel can fill, by its registers, shared memory and block size alone.

// From 0 to 1. The formula is that of NVIDIA's cuda_occupancy.h (CUDA 13.0), the limits are those of the CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability", with as much shared memory as the
// multiprocessor can have. Not known of compute capabilities other than 7.0 to 12.1, and if the launch did not record
// its block or registers.
std::optional<double> TheoreticalOccupancy(const GpuKernel& kernel, uint32_t compute_capability);

}  // namespace dlhook::analyzer::gpu
