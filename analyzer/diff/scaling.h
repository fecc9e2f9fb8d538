// Runs of one program on increasing numbers of devices: the speed-up, and what limits it.
#pragma once

#include "analyzer/steps/phases.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {

// What the work of a step grows with. kByBatch: the batch sizes that the calls show.
enum class ScalingKind : uint8_t { kByBatch, kStrong, kWeak };

// What the table needs of a run; the run itself need not stay in memory.
struct ScalingRun {
  std::string name;
  int64_t processes = 0;  // with steady steps
  int64_t devices = 0;    // used by these, each counted once; without GPU times, the number of processes
  bool has_gpu_times = false;
  StepKind kind = StepKind::kUnknown;
  int64_t steps = 0;   // of all processes
  double step_ns = 0;  // mean over processes of their mean steady step
  int64_t batch = 0;   // per step of all processes together; 0: not known
  // Parts of a mean step, mean over devices; they add up to step_ns. Only with GPU times.
  double compute_ns = 0;
  double exposed_communication_ns = 0;
  double exposed_copy_ns = 0;
  double idle_ns = 0;
  double communication_ns = 0;  // exposed or not
};

// FailedPrecondition if there are no steady steps.
absl::StatusOr<ScalingRun> MeasureScaling(const TraceModel& model, const std::vector<StepTrack>& steps);

// Rows are sorted by devices; the first of those with fewest devices is the base.
Table ScalingTable(std::vector<ScalingRun> runs, ScalingKind kind);

}  // namespace dlhook::analyzer::diff
