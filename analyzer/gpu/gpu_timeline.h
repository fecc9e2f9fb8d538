// What each GPU did over the whole run, by kind of work.
#ifndef DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_
#define DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

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

#endif  // DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_
