// Divides the time of a GPU exactly among what it does: every nanosecond equally among the activities that run in it,
// the rest is idle. Integer nanoseconds; what each gets and the idle time add up to the time of the device. As
// DivideTime does it for threads.
#ifndef DLHOOK_ANALYZER_GPU_GPU_DIVISION_H_
#define DLHOOK_ANALYZER_GPU_GPU_DIVISION_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

// A piece of time in which what the device does not change, with this activity's exact part of it.
struct GpuTimePiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t share_ns = 0;       // parts of one piece add up to its length
  GpuIndex activity = kNone;  // kNone: nothing runs
};

// Calls `take` for every part of every piece of `time`, in order of time. n log n in the device's activities, times those that run
// together.
void DivideGpuTime(const TraceModel& model, GpuDeviceIndex device, const IntervalSet& time,
                   const std::function<void(const GpuTimePiece&)>& take);

// The activities [first, second) of a device.
std::pair<GpuIndex, GpuIndex> GpuRangeOf(const TraceModel& model, GpuDeviceIndex device);

// When times of this process's GPUs came from no source (GPU_TIME_NONE, or before the first window): a GPU that seems
// to do nothing then need not be idle. Of a process that tells no windows: never.
IntervalSet GpuBlindTime(const TraceModel& model, ProcessIndex process);

}  // namespace dlhook::analyzer::gpu

#endif  // DLHOOK_ANALYZER_GPU_GPU_DIVISION_H_
