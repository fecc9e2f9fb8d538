// Maps GPU work to the run's time axis and joins it with the calls that requested it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/call_finder.h"
#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/gpu_links.h"

namespace dlhook::analyzer::inline reader {

// Beyond any clock; keeps damaged traces in range.
inline constexpr int64_t kMaxGpuNs = int64_t{1} << 60;

class GpuJoin {
 public:
  // All pointers must outlive the join. `windows`: of this process, ascending; their ends do not matter.
  struct Facts {
    const RealtimeMap* realtime;
    const GpuLinks* links;
    const GpuNodes* nodes;
    const std::map<uint32_t, ThreadIndex>* threads;
    absl::Span<const GpuWindow> windows;
  };
  GpuJoin(const Facts& facts, const TraceModel& model, Oddities* oddities)
      : facts_(facts), model_(model), calls_(model), oddities_(oddities) {}

  void Join(absl::Span<StagedGpu> work);
  // Of work with a known call; INT64_MIN: none.
  int64_t last_end_ns() const { return last_end_ns_; }

 private:
  struct Asked {
    int64_t ns = GpuActivityColumns::kNotKnown;
    ThreadIndex thread = kNone;
    CallIndex call = kNone;
    bool is_late = false;  // the call seems to come after the work
  };

  void JoinAcrossSteps(absl::Span<StagedGpu> work);
  int64_t ChooseMoment(const StagedGpu& work, const std::vector<int64_t>& moments, int64_t stream_free_ns);
  Asked AskedBy(const StagedGpu& work, int64_t start_ns);
  void JoinAt(int64_t start_ns, StagedGpu* work);
  void FindMaker(const StagedGpu& work, const Asked& asked, CallIndex* call, ScopeIndex* scope);
  ScopeIndex ScopeOf(CallIndex call, ThreadIndex thread, int64_t ns);
  bool IsMeasured(int64_t ns) const;

  Facts facts_;
  const TraceModel& model_;
  CallFinder calls_;
  Oddities* oddities_;
  int64_t last_end_ns_ = INT64_MIN;
  int64_t late_ = 0, unrequested_ = 0, unmade_ = 0;
};

// The offset between the clocks of host and GPU, bounded by what no clock changes.
// Work starts after the call that requested it began, and ends before a call that waited for it returned: a copy to
// pageable memory or a synchronous one from the device, and, in a process with one device, a wait for the whole device (of
// one with a single stream: for it).
// Moves the work from `first` on, of one process with these threads, as little as makes both true for each of its
// devices, and notes how far the offset is still open (TraceModel::gpu_clock_error_ns). What CUPTI did not measure keeps
// its times.
void BoundGpuClocks(size_t first, const std::map<uint32_t, ThreadIndex>& threads, TraceModel* model,
                    Oddities* oddities);

}  // namespace dlhook::analyzer::reader
