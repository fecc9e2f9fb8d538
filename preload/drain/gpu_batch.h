// The drain's open packets about GPUs: activities, links and graph nodes as encoded columns (see proto/call.proto).
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_

#include "preload/format/gpu_records.h"
#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

class GpuActivityBatch {
 public:
  static constexpr uint32_t kMaxActivities = 1024;

  uint32_t count() const { return count_; }

  // True if an activity from this source can't go into the open batch.
  bool MustFlushBefore(GpuTimeSource source) const {
    return count_ > 0 && (source != source_ || count_ == kMaxActivities);
  }

  // False if out of memory: the activity is not in the batch.
  bool Add(const GpuActivityRecord& activity, uint32_t kernel_iid) {
    namespace f = fields::GpuActivityBatch;
    if (count_ == 0 && !Start(activity)) return false;
    Put(f::kKind, static_cast<uint32_t>(activity.kind));
    Put(f::kDevice, activity.device);
    Put(f::kContext, activity.context);
    Put(f::kStream, activity.stream);
    Put(f::kStartDeltaNs, ZigZag(static_cast<int64_t>(activity.start_ns - previous_start_)));
    Put(f::kDurationNs, activity.end_ns > activity.start_ns ? activity.end_ns - activity.start_ns : 0);
    Put(f::kCorrelationDelta, ZigZag(int64_t{activity.correlation} - int64_t{previous_correlation_}));
    Put(f::kKernelIid, kernel_iid);
    PutRare(activity);
    previous_start_ = activity.start_ns;
    previous_correlation_ = activity.correlation;
    ++count_;
    return true;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(Buffer* out) {
    namespace f = fields::GpuActivityBatch;
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(fields::Packet::kGpuActivity);
    writer.UInt(f::kSource, static_cast<uint32_t>(source_));
    for (uint32_t field = f::kKind; field < kFieldEnd; ++field) {
      if (field == f::kBaseStartNs) writer.UInt(field, base_start_);
      if (field < kFirstRareField || (present_ >> field & 1) != 0) writer.Packed(field, columns_[field]);
    }
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;
  static constexpr uint32_t kFirstRareField =
      fields::GpuActivityBatch::kBytes;  // from here on columns of zeros are omitted
  static constexpr uint32_t kFieldEnd = fields::GpuActivityBatch::kSequence + 1;

  void Put(uint32_t field, uint64_t value) {
    columns_[field].AppendVarintUnchecked(value);
    if (value != 0) present_ |= 1u << field;
  }
  void PutRare(const GpuActivityRecord& activity) {
    namespace f = fields::GpuActivityBatch;
    Put(f::kBytes, activity.bytes);
    Put(f::kDirection, static_cast<uint32_t>(activity.direction));
    Put(f::kHostMemory, static_cast<uint32_t>(activity.host_memory));
    Put(f::kPeerDevice, activity.peer_device == kNoDevice ? 0 : activity.peer_device + 1);
    Put(f::kGraphNode, activity.graph_node);
    Put(f::kGraph, activity.graph);
    Put(f::kQueuedBeforeNs, Before(activity.queued_ns, activity.start_ns));
    Put(f::kSubmittedBeforeNs, Before(activity.submitted_ns, activity.start_ns));
    Put(f::kThreadId, activity.thread_id);
    Put(f::kSequence, activity.sequence);
  }
  // Distance to the start, plus one; 0: unknown.
  static uint64_t Before(uint64_t ns, uint64_t start_ns) { return ns == 0 ? 0 : ns < start_ns ? start_ns - ns + 1 : 1; }

  // Reserves memory for a whole batch, so that Add need not check.
  bool Start(const GpuActivityRecord& first) {
    source_ = first.source;
    base_start_ = previous_start_ = first.start_ns;
    previous_correlation_ = 0;
    present_ = 0;
    for (Buffer& column : columns_) {
      column.Clear();
      if (!column.Reserve(kMaxVarintBytes * kMaxActivities)) return false;
    }
    return true;
  }

  uint32_t count_ = 0;
  GpuTimeSource source_ = GpuTimeSource::kNone;
  uint64_t base_start_ = 0;
  uint64_t previous_start_ = 0;
  uint32_t previous_correlation_ = 0;
  uint32_t present_ = 0;       // fields with a non-zero element
  Buffer columns_[kFieldEnd];  // by field number
};

// Rows of one thread, most columns as differences to the previous row: GpuLinkBatch (three columns) and
// GpuGraphNodeBatch (four).
template <uint32_t kColumns>
class GpuRows {
 public:
  static constexpr uint32_t kMaxRows = 1024;

  uint32_t count() const { return count_; }
  bool Takes(uint32_t thread_id) const { return count_ < kMaxRows && (count_ == 0 || thread_id_ == thread_id); }

  struct Fields {
    uint32_t packet;  // of Packet
    uint32_t thread_id;
    uint32_t columns[kColumns];
  };

  // In the order of Fields::columns. `plain`: a bit for each column with values instead of differences. False if out of
  // memory.
  bool Add(uint32_t thread_id, const uint64_t (&row)[kColumns], uint32_t plain) {
    if (count_ == 0 && !Start(thread_id)) return false;
    for (uint32_t i = 0; i < kColumns; ++i) {
      bool is_plain = (plain >> i & 1) != 0;
      columns_[i].AppendVarintUnchecked(is_plain ? row[i] : ZigZag(static_cast<int64_t>(row[i] - previous_[i])));
      previous_[i] = row[i];
    }
    ++count_;
    return true;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(const Fields& numbers, Buffer* out) {
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(numbers.packet);
    writer.UInt(numbers.thread_id, thread_id_);
    for (uint32_t i = 0; i < kColumns; ++i) writer.Packed(numbers.columns[i], columns_[i]);
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;

  bool Start(uint32_t thread_id) {
    thread_id_ = thread_id;
    for (uint32_t i = 0; i < kColumns; ++i) {
      previous_[i] = 0;
      columns_[i].Clear();
      if (!columns_[i].Reserve(kMaxVarintBytes * kMaxRows)) return false;
    }
    return true;
  }

  uint32_t count_ = 0;
  uint32_t thread_id_ = 0;
  uint64_t previous_[kColumns] = {};
  Buffer columns_[kColumns];
};

// All open batches. Links that one thread records for many (external correlation) are interleaved, so several of their
// batches are open at once.
class GpuBatches {
 public:
  GpuActivityBatch activities;

  // False if out of memory.
  bool AddLink(uint32_t thread_id, const GpuLinkRecord& link, Buffer* out) {
    GpuRows<3>* batch = LinksOf(thread_id);
    if (batch == nullptr) {
      FlushLinks(out);
      batch = &links_[0];
    }
    return batch->Add(thread_id, {link.ticks, link.correlation, link.sequence}, 0);
  }
  bool AddNode(uint32_t thread_id, const GpuGraphNodeRecord& node, Buffer* out) {
    if (!nodes_.Takes(thread_id)) nodes_.Flush(kNodeFields, out);
    constexpr uint32_t kOriginal = 1 << 2;
    return nodes_.Add(thread_id, {node.ticks, node.node, node.original, node.sequence}, kOriginal);
  }
  void Flush(Buffer* out) {
    if (nodes_.count() > 0) nodes_.Flush(kNodeFields, out);
    FlushLinks(out);
    if (activities.count() > 0) activities.Flush(out);
  }

 private:
  static constexpr GpuRows<3>::Fields kLinkFields = {
      fields::Packet::kGpuLink,
      fields::GpuLinkBatch::kThreadId,
      {fields::GpuLinkBatch::kTickDelta, fields::GpuLinkBatch::kCorrelationDelta,
       fields::GpuLinkBatch::kSequenceDelta}};
  static constexpr GpuRows<4>::Fields kNodeFields = {
      fields::Packet::kGpuGraphNode,
      fields::GpuGraphNodeBatch::kThreadId,
      {fields::GpuGraphNodeBatch::kTickDelta, fields::GpuGraphNodeBatch::kNodeDelta,
       fields::GpuGraphNodeBatch::kOriginal, fields::GpuGraphNodeBatch::kSequenceDelta}};

  // The open batch of this thread, else an empty one; null if all are used by others or full.
  GpuRows<3>* LinksOf(uint32_t thread_id) {
    GpuRows<3>* found = nullptr;
    for (GpuRows<3>& batch : links_) {
      if (!batch.Takes(thread_id)) continue;
      if (batch.count() > 0) return &batch;
      if (found == nullptr) found = &batch;
    }
    return found;
  }

  void FlushLinks(Buffer* out) {
    for (GpuRows<3>& batch : links_) {
      if (batch.count() > 0) batch.Flush(kLinkFields, out);
    }
  }

  GpuRows<3> links_[8];
  GpuRows<4> nodes_;
};

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_
