// The open packets of the drain about GPUs: activities, links and graph nodes as encoded columns (see
// proto/call.proto). Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_

#include "preload/format/gpu_records.h"
#include "preload/format/packet_writer.h"
#include "preload/format/record.h"

namespace dlhook {

class GpuActivityBatch {
 public:
  static constexpr uint32_t kMaxActivities = 1024;

  uint32_t count() const { return count_; }

  // True where an activity of this source can't go into the open batch.
  bool MustFlushBefore(GpuTimeSource source) const {
    return count_ > 0 && (source != source_ || count_ == kMaxActivities);
  }

  // False where memory is out: the activity is not in the batch.
  bool Add(const GpuActivityRecord& activity, uint32_t kernel_iid) {
    if (count_ == 0 && !Start(activity)) return false;
    Put(2, static_cast<uint32_t>(activity.kind));
    Put(3, activity.device);
    Put(4, activity.context);
    Put(5, activity.stream);
    Put(7, ZigZag(static_cast<int64_t>(activity.start_ns - previous_start_)));
    Put(8, activity.end_ns > activity.start_ns ? activity.end_ns - activity.start_ns : 0);
    Put(9, ZigZag(int64_t{activity.correlation} - int64_t{previous_correlation_}));
    Put(10, kernel_iid);
    PutRare(activity);
    previous_start_ = activity.start_ns;
    previous_correlation_ = activity.correlation;
    ++count_;
    return true;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(Buffer* out) {
    PacketWriter writer(out);
    size_t packet = writer.Begin(1);  // Trace.packet
    size_t batch = writer.Begin(6);   // Packet.gpu_activity
    writer.UInt(1, static_cast<uint32_t>(source_));
    for (uint32_t field = 2; field < kFieldEnd; ++field) {
      if (field == 6) writer.UInt(6, base_start_);
      if (field < kFirstRareField || (told_ >> field & 1) != 0) writer.Packed(field, columns_[field]);
    }
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;
  static constexpr uint32_t kFirstRareField = 11;  // from here on a column of zeros is left out
  static constexpr uint32_t kFieldEnd = 21;

  void Put(uint32_t field, uint64_t value) {
    columns_[field].AppendVarintUnchecked(value);
    if (value != 0) told_ |= 1u << field;
  }
  void PutRare(const GpuActivityRecord& activity) {
    Put(11, activity.bytes);
    Put(12, static_cast<uint32_t>(activity.direction));
    Put(13, static_cast<uint32_t>(activity.host_memory));
    Put(14, activity.peer_device == kNoDevice ? 0 : activity.peer_device + 1);
    Put(15, activity.graph_node);
    Put(16, activity.graph);
    Put(17, Before(activity.queued_ns, activity.start_ns));
    Put(18, Before(activity.submitted_ns, activity.start_ns));
    Put(19, activity.thread_id);
    Put(20, activity.sequence);
  }
  // Distance to the start, and one: 0 says that it is not known.
  static uint64_t Before(uint64_t ns, uint64_t start_ns) { return ns == 0 ? 0 : ns < start_ns ? start_ns - ns + 1 : 1; }

  // Makes room for a whole batch at once, so that Add need not look.
  bool Start(const GpuActivityRecord& first) {
    source_ = first.source;
    base_start_ = previous_start_ = first.start_ns;
    previous_correlation_ = 0;
    told_ = 0;
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
  uint32_t told_ = 0;  // fields with an element that is not 0
  Buffer columns_[kFieldEnd];  // by field number
};

// Rows of one thread, most of their columns as differences to the row before: GpuLinkBatch (three columns) and
// GpuGraphNodeBatch (four), whose fields are numbered alike.
template <uint32_t kColumns>
class GpuRows {
 public:
  static constexpr uint32_t kMaxRows = 1024;

  uint32_t count() const { return count_; }
  bool Takes(uint32_t thread_id) const { return count_ < kMaxRows && (count_ == 0 || thread_id_ == thread_id); }

  // In the order of the fields. `plain`: a bit for each column that holds values, not differences. False where memory
  // is out.
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

  // Appends the packet, whose field of Packet is `packet_field`, to `out` and starts an empty batch.
  void Flush(uint32_t packet_field, Buffer* out) {
    PacketWriter writer(out);
    size_t packet = writer.Begin(1);
    size_t batch = writer.Begin(packet_field);
    writer.UInt(1, thread_id_);
    for (uint32_t i = 0; i < kColumns; ++i) writer.Packed(2 + i, columns_[i]);
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

// All of them. Links that one thread tells for many (external correlation) come mixed: some of their batches are open
// at once.
class GpuBatches {
 public:
  GpuActivityBatch activities;

  // False where memory is out.
  bool AddLink(uint32_t thread_id, const GpuLinkRecord& link, Buffer* out) {
    GpuRows<3>* batch = LinksOf(thread_id);
    if (batch == nullptr) {
      FlushLinks(out);
      batch = &links_[0];
    }
    return batch->Add(thread_id, {link.ticks, link.correlation, link.sequence}, 0);
  }
  bool AddNode(uint32_t thread_id, const GpuGraphNodeRecord& node, Buffer* out) {
    if (!nodes_.Takes(thread_id)) nodes_.Flush(kNodePacket, out);
    constexpr uint32_t kOriginal = 1 << 2;
    return nodes_.Add(thread_id, {node.ticks, node.node, node.original, node.sequence}, kOriginal);
  }
  void Flush(Buffer* out) {
    if (nodes_.count() > 0) nodes_.Flush(kNodePacket, out);
    FlushLinks(out);
    if (activities.count() > 0) activities.Flush(out);
  }

 private:
  static constexpr uint32_t kLinkPacket = 17;  // Packet.gpu_link
  static constexpr uint32_t kNodePacket = 18;  // Packet.gpu_graph_node

  // The open batch of this thread, else an empty one; null where all are others' or full.
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
      if (batch.count() > 0) batch.Flush(kLinkPacket, out);
    }
  }

  GpuRows<3> links_[8];
  GpuRows<4> nodes_;
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_DRAIN_GPU_BATCH_H_
