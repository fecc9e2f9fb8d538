// What GPUs did in the time that tables of them speak of: steady steps, and only while their times were measured.
#ifndef DLHOOK_ANALYZER_GPU_GPU_BUSY_H_
#define DLHOOK_ANALYZER_GPU_GPU_BUSY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline gpu {

// Of one process: its steady training steps, else those of inference or validation, else others (GroupSteps); where it
// has none, all of it. Of steps those that were measured from beginning to end, so that means are of whole steps; where
// none was, what was measured of all of them.
struct MeasuredTime {
  IterationKind kind = IterationKind::kUnknown;
  std::string sort;         // Step.sort
  int64_t steps = 0;        // 0: none were found, `time` is of the whole process
  int64_t batch = 0;        // of these steps, where all have one; else 0
  IntervalSet time;         // of these steps (or the process), as far as times of GPUs were measured
  int64_t all_steps = 0;    // with those left out because GPUs were not measured all through them
  int64_t duration_ns = 0;  // of all of them (or the process)
};
// By process.
std::vector<MeasuredTime> MeasuredTimes(const TraceModel& model, const std::vector<StepTrack>& steps);

// What one device did for one process in its measured time. Work that reaches over its bounds is cut there.
struct DeviceWork {
  GpuDeviceIndex device = 0;
  IntervalSet compute;
  IntervalSet copy;
  IntervalSet communication;
  int64_t kernels = 0;  // that began in that time; of events: operations
  int64_t copies = 0;   // and sets
  int64_t copied_bytes = 0;
  bool is_cupti = false;  // sources of its times, in all the run
  bool is_events = false;

  IntervalSet Busy() const { return compute.Union(copy).Union(communication); }
  IntervalSet ExposedCommunication() const { return communication.Difference(compute); }
  // Copies beside nothing else.
  IntervalSet ExposedCopy() const { return copy.Difference(compute.Union(communication)); }
};
// One for each device that did something in the run, in the order of model.gpu_devices.
std::vector<DeviceWork> WorkOfDevices(const TraceModel& model, const std::vector<MeasuredTime>& times);

// The process's rank as its launcher told it (RANK, SLURM_PROCID …), else empty.
std::string RankOf(const TraceModel& model, ProcessIndex process);
// Ascending by rank (as numbers), those without one last; equal ones in their order.
std::vector<ProcessIndex> ByRank(const TraceModel& model);

}  // namespace dlhook::analyzer::gpu

#endif  // DLHOOK_ANALYZER_GPU_GPU_BUSY_H_
