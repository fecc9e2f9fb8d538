// What GPUs' own times say of copies: how fast each was, how near to what the link can do, what ran beside it.
#ifndef DLHOOK_ANALYZER_TABLES_GPU_GPU_COPIES_H_
#define DLHOOK_ANALYZER_TABLES_GPU_GPU_COPIES_H_

#include <cstdint>
#include <vector>

#include "analyzer/gpu/gpu_timeline.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline tables {

// Of copies (or sets) that stand in one row.
struct GpuCopySum {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t busy_ns = 0;
  int64_t beside_compute_ns = 0;  // of busy_ns: while the same device computed
  int64_t timed_bytes = 0;        // of copies that took time …
  int64_t timed_ns = 0;
  double min_rate = 0, max_rate = 0;  // bytes per nanosecond: GB/s
  double peak_bytes = 0;              // what their link can move in their time …
  int64_t peak_of_bytes = 0;          // … and what they moved, of copies whose link's peak is known
  bool is_cupti = false;              // sources of these times
  bool is_events = false;

  std::string Source() const;
};

class GpuCopies {
 public:
  explicit GpuCopies(const TraceModel& model) : model_(model), timelines_(GpuTimelines(model)) {}

  // Whether the activity is a copy or a set, of a graph, too.
  bool IsCopy(GpuIndex activity) const;
  void Add(GpuIndex activity, GpuCopySum* sum) const;

 private:
  const TraceModel& model_;
  const std::vector<GpuTimeline> timelines_;
};

}  // namespace dlhook::analyzer::tables

#endif  // DLHOOK_ANALYZER_TABLES_GPU_GPU_COPIES_H_
