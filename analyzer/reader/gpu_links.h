// Which calls requested GPU work, from one process trace: links by correlation id, and the calls that created nodes of
// CUDA graphs.
#pragma once

#include "analyzer/model/call_finder.h"
#include "analyzer/model/oddities.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/python_builder.h"
#include "proto/call.pb.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

// GPU kernels, distinct over the run, with demangled names.
class GpuKernelTable {
 public:
  GpuKernelTable(TraceModel* model, NameTable* names) : model_(model), names_(names) {}

  // `mangled`: its name; kNone: not known.
  GpuKernelIndex Kernel(const trace::InternedGpuKernel& kernel, NameIndex mangled);

 private:
  struct Names {
    NameIndex name = kNone;
    NameIndex short_name = kNone;
  };
  Names NamesOf(NameIndex mangled);

  TraceModel* model_;
  NameTable* names_;
  absl::flat_hash_map<NameIndex, Names> by_mangled_;
  absl::flat_hash_map<std::string, GpuKernelIndex> kernels_;  // by definition, with the name's index as id
};

// GPU work of one process trace while it is being read.
// Some fields change their meaning when the work is joined with calls (GpuJoin).
struct StagedGpu {
  // As recorded                               | as joined
  int64_t start_ns = 0;      // CLOCK_REALTIME | the run's axis
  uint64_t graph_node = 0;   //                | not used
  uint64_t sequence = 0;     //                | requested_ns
  uint32_t correlation = 0;  //                | launch_call
  uint32_t thread = 0;       // the trace's id | ThreadIndex, kNone
  uint32_t call = kNone;     // not used       | call
  uint32_t scope = kNone;    // not used       | scope
  int64_t duration_ns = 0;
  uint64_t bytes = 0;
  GpuKernelIndex kernel = kNone;
  uint32_t graph = 0;
  uint32_t device = 0;  // CUDA's ordinal
  uint32_t stream = 0;
  GpuActivityKind kind = GpuActivityKind::kUnknown;
  GpuTimeSource source = GpuTimeSource::kNone;
  CopyDirection direction = CopyDirection::kUnknown;
  HostMemory host_memory = HostMemory::kNone;

  int64_t end_ns() const { return start_ns + duration_ns; }
};
static_assert(sizeof(StagedGpu) == 80);

// How far work may begin before the call that requested it: the maximum error between the clocks of host and GPU.
constexpr int64_t kGpuClockErrorNs = 1'000'000;

class GpuLinks {
 public:
  struct Link {
    // Before Finish in ticks, 0: unknown; afterwards the start of the call, INT64_MIN if none.
    int64_t ns = 0;
    uint64_t sequence = 0;
    uint32_t correlation = 0;
    uint32_t thread = 0;  // before Finish the id in the trace
  };

  void Add(const trace::GpuLinkBatch& batch, Oddities* oddities);
  // `model` must have the threads' calls.
  void Finish(const ClockMap& clock, const ThreadIndices& threads, const TraceModel& model);

  // The last link with this id that is not later than the work, which begins at `start_ns`; if the id was used only
  // once, also a later one (*is_late: the clocks disagree). Null: none.
  const Link* Find(uint32_t correlation, int64_t start_ns, bool* is_late) const;

 private:
  // Index of the first link with a greater id, or with this one and a later time.
  size_t PlaceAfter(uint32_t correlation, int64_t until_ns) const;

  std::vector<Link> links_;        // after Finish sorted by correlation and time
  mutable size_t last_place_ = 0;  // ids are looked up almost in order
};

class GpuNodes {
 public:
  // The origin of a node.
  struct Node {
    uint64_t node = 0;
    uint64_t original = 0;
    int64_t ns = 0;  // before Finish in ticks
    uint64_t sequence = 0;
    uint32_t thread = 0;  // before Finish the id in the trace
    uint32_t root = 0;    // index of the node that a call created, of which this one is a copy (of a copy)
  };

  void Add(const trace::GpuGraphNodeBatch& batch, Oddities* oddities);
  void Finish(const ClockMap& clock, const ThreadIndices& threads);

  // The node created by a call of which `node`, launched at `requested_ns`, is a copy, or `node` itself. Null: not in the
  // trace.
  const Node* RootOf(uint64_t node, int64_t requested_ns) const;

 private:
  uint32_t Find(uint64_t node, int64_t until_ns) const;

  std::vector<Node> nodes_;  // after Finish sorted by node and time
};

// Maps GPU work to the run's time axis and joins it with the calls that requested it.
class GpuJoin {
 public:
  // All pointers must outlive the join. `windows`: of this process, ascending; their ends do not matter.
  struct Facts {
    const RealtimeMap* realtime;
    const GpuLinks* links;
    const GpuNodes* nodes;
    const ThreadIndices* threads;
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

// Bounds the offset between the clocks of host and GPU by what no clock changes: work starts after the call that requested
// it began, and ends before a call that waited for it returned (a copy to pageable memory or a synchronous one from the
// device; with one device a wait for all of it, with a single stream for that one). Where nothing waited for it and all work
// began late, the first began at once. Moves the work from `first` on, of one process with these threads, as little as makes
// this true for each of its devices; how far the offset is still open: TraceModel::gpu_clock_error_ns. What CUPTI did not
// measure keeps its times.
void BoundGpuClocks(size_t first, const ThreadIndices& threads, TraceModel* model, Oddities* oddities);

}  // namespace dlhook::analyzer::reader
