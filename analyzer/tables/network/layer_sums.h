// The sums of each row of the table `layers`, over the steps that count.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline tables {

// Steps over which a mean is taken: one kind and sort, all processes and threads.
struct StepSet {
  StepKind kind = StepKind::kUnknown;
  std::string sort;  // Step.sort
  std::vector<std::pair<ProcessIndex, const Step*>> steps;
  LeftOutSteps left_out;
  int64_t total_ns = 0;  // of `steps`
};

// The steady steps of the wanted kind, by default of training if there are any, else of inference, else whatever
// repeats: one set per sort, most time first. Empty: no such steps.
std::vector<StepSet> StepSetsOf(const std::vector<StepTrack>& tracks, std::optional<StepKind> wanted);

struct LayerSums {
  struct Group {
    int64_t share_ns = 0;  // wall share
    NsByDirection by_direction_ns{};
    int64_t layout_ns = 0;  // part of share_ns
    int64_t thread_ns = 0;  // durations, including nested groups …
    int64_t self_ns = 0;    // … and excluding them
    int64_t calls = 0;      // library calls; nested views of the same work do not count
    double flops = 0;
    double bytes = 0;
    BoundSums bounds;      // on the CPU and on GPUs
    bool has_rate = true;  // false: calls return before their work is done

    // GPU work requested in those of these steps in which GPUs were measured, whenever it ran …
    int64_t gpu_ns = 0;  // durations
    NsByDirection gpu_by_direction_ns{};
    int64_t gpu_activities = 0;
    int64_t gpu_kernels = 0;
    double gpu_flops = 0;  // of the library calls that it was done for, once per execution
    // The least time, at the peak for their types, of these calls whose peak is known; of forward passes done again.
    double gpu_peak_ns = 0;
    double gpu_recompute_peak_ns = 0;
    // Of runs recorded in windows, one standard error of share_ns and of gpu_ns as means of a step, by how much the recorded
    // steps differ; 0: not known.
    double error_ns = 0;
    double gpu_error_ns = 0;
    // … and work that ran in these steps: GPU time divided, instant by instant, equally among what runs.
    int64_t gpu_share_ns = 0;

    int64_t Of(LayerDirection direction) const { return by_direction_ns[static_cast<size_t>(direction)]; }
    int64_t backward_ns() const;
    int64_t GpuOf(LayerDirection direction) const { return gpu_by_direction_ns[static_cast<size_t>(direction)]; }
    int64_t gpu_backward_ns() const;
  };
  std::vector<Group> groups;   // by GroupIndex
  int64_t total_ns = 0;        // of the steps; the sum of the groups' wall shares
  int64_t gpu_total_ns = 0;    // of the steps, once per GPU that their process uses; the sum of the groups' GPU shares
  int64_t step_count = 0;      // 0: no steps are known, the sums cover the whole run
  int64_t gpu_step_count = 0;  // of these, the steps throughout which GPUs were measured; if there are none, all
  int64_t gpu_busy_ns = 0;     // in which any of the groups' GPU work ran: less than it adds up to where it overlaps
  double gpu_rated_flops = 0;  // of the calls that are in gpu_peak_ns …
  int64_t gpu_rated_ns = 0;    // … and the GPU work done for them
  std::map<std::string, double> gpu_peaks;       // of these calls by type, GFLOP/s
  std::set<std::string> gpu_types_without_peak;  // of calls with known FLOPs
  std::string sentence;                          // describes the steps
  int64_t steps() const { return step_count > 0 ? step_count : 1; }
  int64_t gpu_steps() const { return gpu_step_count > 0 ? gpu_step_count : 1; }

  // Of the steps' time on the GPUs, in percent: at least so much, since FLOPs of a framework's own kernels are not known.
  struct Utilization {
    double model_percent = 0;     // MFU: without forward passes done again
    double hardware_percent = 0;  // HFU
    std::string peaks;            // "1071 TFLOP/s for bf16"
  };
  // nullopt: no FLOPs, or not all peaks are known.
  std::optional<Utilization> GpuUtilization() const;
};

// Over the steps of `set`, or over the whole run if it is empty. In a step of one thread, work of other threads belongs
// to the group other_threads().
LayerSums SumLayers(const TraceModel& model, const LayerAnalysis& analysis, const LayerGroups& groups,
                    const RunTotals& totals, const StepSet& set, const Peaks* peaks);

}  // namespace dlhook::analyzer::tables
