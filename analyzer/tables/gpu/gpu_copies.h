// GPU times of copies: how fast each was, how close to the link's peak, what ran at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline tables {

// Copies (or memsets) of one row.
struct GpuCopySum {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t busy_ns = 0;
  int64_t beside_compute_ns = 0;  // part of busy_ns during which the same device computed
  int64_t timed_bytes = 0;        // of copies with a known duration …
  int64_t timed_ns = 0;
  double min_rate = 0, max_rate = 0;  // bytes per nanosecond: GB/s
  double peak_bytes = 0;              // what their link could move in their time …
  int64_t peak_of_bytes = 0;          // … and what they moved; only copies over links with a known peak
  bool is_cupti = false;              // sources of these times
  bool is_events = false;

  std::string Source() const;
};

class GpuCopies {
 public:
  explicit GpuCopies(const TraceModel& model) : model_(model), timelines_(GpuTimelines(model)) {}

  // Whether the activity is a copy or a memset, also inside a graph.
  bool IsCopy(GpuIndex activity) const;
  void Add(GpuIndex activity, GpuCopySum* sum) const;

 private:
  const TraceModel& model_;
  const std::vector<GpuTimeline> timelines_;
};

}  // namespace dlhook::analyzer::tables
