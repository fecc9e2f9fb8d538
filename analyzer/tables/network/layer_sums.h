// What belongs to each row of the table `layers`, summed over the steps that count.
#ifndef DLHOOK_ANALYZER_TABLES_NETWORK_LAYER_SUMS_H_
#define DLHOOK_ANALYZER_TABLES_NETWORK_LAYER_SUMS_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/tables/network/layer_groups.h"

namespace dlhook::analyzer::inline tables {

struct LayerSums {
  struct Group {
    int64_t share_ns = 0;  // wall share
    std::array<int64_t, 8> by_direction_ns{};
    int64_t layout_ns = 0;  // of share_ns
    int64_t thread_ns = 0;  // durations, with what other groups do inside …
    int64_t self_ns = 0;    // … and without
    int64_t calls = 0;      // of libraries; another view of the same work does not count
    double flops = 0;
    double bytes = 0;
    bool has_rate = true;  // false: calls return before their work is done

    // Of GPUs: what was asked for in those of these steps in which GPUs were measured, whenever it ran …
    int64_t gpu_ns = 0;  // durations
    std::array<int64_t, 8> gpu_by_direction_ns{};
    int64_t gpu_activities = 0;
    int64_t gpu_kernels = 0;
    double gpu_flops = 0;  // of the library calls that it was computed for, once for each execution
    // … and what ran in these steps: each moment of a GPU divided equally among what it does.
    int64_t gpu_share_ns = 0;

    int64_t Of(LayerDirection direction) const { return by_direction_ns[static_cast<size_t>(direction)]; }
    int64_t backward_ns() const;
    int64_t GpuOf(LayerDirection direction) const { return gpu_by_direction_ns[static_cast<size_t>(direction)]; }
    int64_t gpu_backward_ns() const;
  };
  std::vector<Group> groups;  // by GroupIndex
  int64_t total_ns = 0;       // of the steps; the groups' wall shares add up to it
  int64_t gpu_total_ns =
      0;  // of the steps, once for each GPU that their process uses; the groups' GPU shares add up to it
  int64_t step_count = 0;      // 0: no steps are known, all is of the whole run
  int64_t gpu_step_count = 0;  // of them, those all through which GPUs were measured; where none was, all
  std::string sentence;        // which steps these are
  int64_t steps() const { return step_count > 0 ? step_count : 1; }
  int64_t gpu_steps() const { return gpu_step_count > 0 ? gpu_step_count : 1; }
};

// Steps that a mean is taken of: of one kind and sort, of all processes and threads.
struct StepSet {
  IterationKind kind = IterationKind::kUnknown;
  std::string sort;  // Step.sort
  std::vector<std::pair<ProcessIndex, const Step*>> steps;
};

// The steady training steps where there are any, else those of inference, else what repeats: a set for each sort, those with most
// time first. Empty: there are none.
std::vector<StepSet> StepSetsOf(const std::vector<StepTrack>& tracks);

// Over the steps of `set`; over the whole run where that has none. In a step of one thread what others do meanwhile is of the group
// other_threads().
LayerSums SumLayers(const TraceModel& model, const LayerAnalysis& analysis, const LayerGroups& groups,
                    const RunTotals& totals, const StepSet& set);

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_NETWORK_LAYER_SUMS_H_
