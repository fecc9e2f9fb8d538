// What each GPU did when, by kinds of work, over the whole run.
#ifndef DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_
#define DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

// Of one device, as one process uses it. Copies are copies alone: while memory is filled (memset) the device is busy,
// but with none of these kinds.
struct GpuTimeline {
  IntervalSet compute;  // kernels, ops and graphs, without communication
  IntervalSet communication;
  IntervalSet copies;
  IntervalSet to_device;      // of the copies
  IntervalSet from_device;    // of the copies
  IntervalSet busy;           // anything at all
  IntervalSet compute_twice;  // two kernels at once
  IntervalSet copies_twice;   // two copies at once
};

// By GpuDeviceIndex; empty sets where a device did nothing.
std::vector<GpuTimeline> GpuTimelines(const TraceModel& model);

// When a device of this process is busy for other processes that use it, too (the same uuid).
IntervalSet BusyForOthers(const TraceModel& model, const std::vector<GpuTimeline>& timelines, GpuDeviceIndex device);

// Of `set`, what lies in `time`.
int64_t CoveredIn(const IntervalSet& set, const IntervalSet& time);

}  // namespace dlhook::analyzer::gpu

#endif  // DLHOOK_ANALYZER_GPU_GPU_TIMELINE_H_
