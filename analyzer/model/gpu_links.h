// Who asked for work of GPUs, as one process trace tells: links by correlation id, and the calls that made nodes of
// CUDA graphs.
#ifndef DLHOOK_ANALYZER_MODEL_GPU_LINKS_H_
#define DLHOOK_ANALYZER_MODEL_GPU_LINKS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/call_finder.h"
#include "analyzer/model/clock_map.h"
#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline model {

// By how much work may begin before the call that asked for it: what the clocks of host and GPU are apart at the most.
constexpr int64_t kGpuClockErrorNs = 1'000'000;

class GpuLinks {
 public:
  struct Link {
    // Before Finish ticks, 0: not told; after it that is the start of the call, INT64_MIN where there is none.
    int64_t ns = 0;
    uint64_t sequence = 0;
    uint32_t correlation = 0;
    uint32_t thread = 0;  // before Finish the trace's id
  };

  void Add(const trace::GpuLinkBatch& batch, Oddities* oddities);
  // `model` has the threads' calls.
  void Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads, const TraceModel& model);

  // The last link of this id that is not later than the work, which begins at `start_ns`; of an id that was used once
  // alone also a later one (*is_late: the clocks disagree). Null: none.
  const Link* Find(uint32_t correlation, int64_t start_ns, bool* is_late) const;

 private:
  // Of the first link that is of a greater id, or of this one and later.
  size_t PlaceAfter(uint32_t correlation, int64_t until_ns) const;

  std::vector<Link> links_;        // after Finish by correlation, time
  mutable size_t last_place_ = 0;  // ids are asked for nearly in order
};

class GpuNodes {
 public:
  // Where a node came from.
  struct Node {
    uint64_t node = 0;
    uint64_t original = 0;
    int64_t ns = 0;  // before Finish ticks
    uint64_t sequence = 0;
    uint32_t thread = 0;  // before Finish the trace's id
    uint32_t root = 0;    // place of the node that a call made, of which this one is a copy (of a copy)
  };

  void Add(const trace::GpuGraphNodeBatch& batch, Oddities* oddities);
  void Finish(const ClockMap& clock, const std::map<uint32_t, ThreadIndex>& threads);

  // The node that a call made, of which `node`, launched at `asked_ns`, is a copy, or itself. Null: the trace does not
  // tell.
  const Node* RootOf(uint64_t node, int64_t asked_ns) const;

 private:
  uint32_t Find(uint64_t node, int64_t until_ns) const;

  std::vector<Node> nodes_;  // after Finish by node, time
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_GPU_LINKS_H_
