// What GPUs did in the time that their tables cover: steady steps, while GPU times were measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

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

}  // namespace dlhook::analyzer::gpu
