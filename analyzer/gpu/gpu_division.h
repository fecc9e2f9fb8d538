// Divides the time of a GPU exactly: every nanosecond equally among the activities that run in it, the rest is idle.
// Integer nanoseconds; the parts and the idle time add up to the time of the device. The same as DivideTime for
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

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
// stopped: a GPU that seems idle then need not be. Of a process without windows only the latter.
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

}  // namespace dlhook::analyzer::gpu
