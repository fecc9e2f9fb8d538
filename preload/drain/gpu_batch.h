// The drain's open packets about GPUs (activities, links and graph nodes) and about memory (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
#include "preload/format/gpu_records.h"
#include "preload/format/record.h"

namespace dlhook::inline drain {

class GpuActivityBatch {
 public:
  uint32_t count() const { return columns_.rows(); }

  // True if an activity from this source can't go into the open batch.
  bool MustFlushBefore(GpuTimeSource source) const { return count() > 0 && (source != source_ || columns_.full()); }

  // False if out of memory: the activity is not in the batch.
  bool Add(const GpuActivityRecord& activity, uint32_t kernel_iid) {
    if (count() == 0 && !Start(activity)) return false;
    columns_.Put(kKind, static_cast<uint32_t>(activity.kind));
    columns_.Put(kDevice, activity.device);
    columns_.Put(kContext, activity.context);
    columns_.Put(kStream, activity.stream);
    columns_.PutDelta(kStartDeltaNs, activity.start_ns);
    columns_.Put(kDurationNs, activity.end_ns > activity.start_ns ? activity.end_ns - activity.start_ns : 0);
    columns_.PutDelta(kCorrelationDelta, activity.correlation);
    columns_.Put(kKernelIid, kernel_iid);
    columns_.PutRare(kBytes, activity.bytes);
    columns_.PutRare(kDirection, static_cast<uint32_t>(activity.direction));
    columns_.PutRare(kHostMemory, static_cast<uint32_t>(activity.host_memory));
    columns_.PutRare(kPeerDevice, activity.peer_device == kNoDevice ? 0 : activity.peer_device + 1);
    columns_.PutRare(kGraphNode, activity.graph_node);
    columns_.PutRare(kGraph, activity.graph);
    columns_.PutRare(kQueuedBeforeNs, Before(activity.queued_ns, activity.start_ns));
    columns_.PutRare(kSubmittedBeforeNs, Before(activity.submitted_ns, activity.start_ns));
    columns_.PutRare(kThreadId, activity.thread_id);
    columns_.PutRare(kSequence, activity.sequence);
    columns_.EndRow();
    return true;
  }

  void Flush(Buffer* out) { columns_.Flush(out); }

 private:
  using enum fields::GpuActivityBatch::Number;

  // Distance to the start, plus one; 0: unknown.
  static uint64_t Before(uint64_t ns, uint64_t start_ns) { return ns == 0 ? 0 : ns < start_ns ? start_ns - ns + 1 : 1; }

  bool Start(const GpuActivityRecord& first) {
    if (!columns_.Start()) return false;
    source_ = first.source;
    columns_.Set(kSource, static_cast<uint32_t>(source_));
    columns_.Set(kBaseStartNs, first.start_ns);
    columns_.SetBase(kStartDeltaNs, first.start_ns);
    return true;
  }

  GpuTimeSource source_ = GpuTimeSource::kNone;
  Columns<fields::Packet::kGpuActivity, fields::GpuActivityBatch::kRepeated, 1024> columns_;
};

// Rows of one thread.
template <typename Columns>
struct ThreadRows {
  uint32_t thread_id = 0;
  Columns columns;

  bool Takes(uint32_t thread) const { return !columns.full() && (columns.rows() == 0 || thread_id == thread); }
  // False if out of memory.
  bool Start(uint32_t thread) {
    if (columns.rows() > 0) return true;
    thread_id = thread;
    if (!columns.Start()) return false;
    columns.Set(1, thread);  // thread_id
    return true;
  }
  void Flush(Buffer* out) {
    if (columns.rows() > 0) columns.Flush(out);
  }
};

// All open batches. Links that one thread records for many (external correlation) are interleaved, so several of their
// batches are open at once.
class GpuBatches {
 public:
  GpuActivityBatch activities;

  // False if out of memory.
  bool AddLink(uint32_t thread_id, const GpuLinkRecord& link, Buffer* out) {
    using enum fields::GpuLinkBatch::Number;
    Links* batch = LinksOf(thread_id);
    if (batch == nullptr) {
      FlushLinks(out);
      batch = &links_[0];
    }
    if (!batch->Start(thread_id)) return false;
    batch->columns.PutDelta(kTickDelta, link.ticks);
    batch->columns.PutDelta(kCorrelationDelta, link.correlation);
    batch->columns.PutDelta(kSequenceDelta, link.sequence);
    batch->columns.EndRow();
    return true;
  }
  bool AddNode(uint32_t thread_id, const GpuGraphNodeRecord& node, Buffer* out) {
    using enum fields::GpuGraphNodeBatch::Number;
    if (!nodes_.Takes(thread_id)) nodes_.Flush(out);
    if (!nodes_.Start(thread_id)) return false;
    nodes_.columns.PutDelta(kTickDelta, node.ticks);
    nodes_.columns.PutDelta(kNodeDelta, node.node);
    nodes_.columns.Put(kOriginal, node.original);
    nodes_.columns.PutDelta(kSequenceDelta, node.sequence);
    nodes_.columns.EndRow();
    return true;
  }
  bool AddMemory(uint32_t thread_id, const MemoryRecord& memory, Buffer* out) {
    using enum fields::MemoryBatch::Number;
    if (!memory_.Takes(thread_id)) memory_.Flush(out);
    if (!memory_.Start(thread_id)) return false;
    memory_.columns.PutDelta(kTickDelta, memory.ticks);
    memory_.columns.PutDelta(kAddressDelta, memory.address);
    memory_.columns.Put(kBytes, memory.bytes);
    memory_.columns.PutRare(kDevice, memory.header.hook);
    memory_.columns.PutRare(kAllocated, memory.allocated);
    memory_.columns.PutRare(kReserved, memory.reserved);
    memory_.columns.EndRow();
    return true;
  }
  void Flush(Buffer* out) {
    memory_.Flush(out);
    nodes_.Flush(out);
    FlushLinks(out);
    if (activities.count() > 0) activities.Flush(out);
  }

 private:
  static constexpr uint32_t kMaxRows = 1024;
  using Links = ThreadRows<Columns<fields::Packet::kGpuLink, fields::GpuLinkBatch::kRepeated, kMaxRows>>;
  using Nodes = ThreadRows<Columns<fields::Packet::kGpuGraphNode, fields::GpuGraphNodeBatch::kRepeated, kMaxRows>>;

  // The open batch of this thread, else an empty one; null if all are used by others or full.
  Links* LinksOf(uint32_t thread_id) {
    Links* found = nullptr;
    for (Links& batch : links_) {
      if (!batch.Takes(thread_id)) continue;
      if (batch.columns.rows() > 0) return &batch;
      if (found == nullptr) found = &batch;
    }
    return found;
  }

  void FlushLinks(Buffer* out) {
    for (Links& batch : links_) batch.Flush(out);
  }

  Links links_[8];
  Nodes nodes_;
  ThreadRows<Columns<fields::Packet::kMemoryBatch, fields::MemoryBatch::kRepeated, kMaxRows>> memory_;
};

}  // namespace dlhook::inline drain
