// The drain's open CounterBatch packets: readings of one set of counters of one thread as encoded columns (see
// proto/call.proto).
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_COUNTER_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_COUNTER_BATCH_H_

#include <initializer_list>

#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

using ReadingKind = fields::CounterBatch::Kind;

// Common to the readings of one batch.
struct CounterBatchKey {
  uint32_t thread_id;  // 0: a thread without recorded calls; with tid 0: the whole process
  uint32_t tid;
  ReadingKind kind;
  CounterSource source;
  uint32_t count;  // number of counters
  uint32_t name_iids[kMaxCountersOfSet];

  bool operator==(const CounterBatchKey& other) const {
    if (thread_id != other.thread_id || tid != other.tid || kind != other.kind || source != other.source) return false;
    return count == other.count && memcmp(name_iids, other.name_iids, count * sizeof name_iids[0]) == 0;
  }
};

struct CounterReading {
  uint64_t ticks;
  uint64_t enabled_ns;  // both 0 if nothing is multiplexed
  uint64_t running_ns;
  uint64_t values[kMaxCountersOfSet];
};

class CounterBatch {
 public:
  static constexpr uint32_t kMaxReadings = 512;

  uint32_t count() const { return count_; }
  bool Takes(const CounterBatchKey& key) const { return count_ > 0 && count_ < kMaxReadings && key_ == key; }

  // For an empty batch: the key of the following readings.
  void Start(const CounterBatchKey& key) {
    key_ = key;
    previous_ = {};
    is_scaled_ = false;
    for (Buffer* column : {&ticks_, &values_, &enabled_, &running_}) column->Clear();
  }

  // False if out of memory: the reading is not in the batch.
  bool Add(const CounterReading& reading) {
    constexpr uint32_t kMaxVarintBytes = 10;
    bool fits = ticks_.Reserve(ticks_.size() + kMaxVarintBytes) &&
                enabled_.Reserve(enabled_.size() + kMaxVarintBytes) &&
                running_.Reserve(running_.size() + kMaxVarintBytes) &&
                values_.Reserve(values_.size() + kMaxVarintBytes * kMaxCountersOfSet);
    if (!fits) return false;
    Append(&ticks_, reading.ticks, &previous_.ticks);
    for (uint32_t i = 0; i < key_.count; ++i) Append(&values_, reading.values[i], &previous_.values[i]);
    Append(&enabled_, reading.enabled_ns, &previous_.enabled_ns);
    Append(&running_, reading.running_ns, &previous_.running_ns);
    is_scaled_ = is_scaled_ || reading.enabled_ns != 0 || reading.running_ns != 0;
    ++count_;
    return true;
  }

  // Appends the packet to `out` and empties the batch.
  void Flush(Buffer* out) {
    namespace f = fields::CounterBatch;
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(fields::Packet::kCounterBatch);
    writer.UInt(f::kThreadId, key_.thread_id);
    writer.UInt(f::kTid, key_.tid);
    writer.UInt(f::kKind, static_cast<uint32_t>(key_.kind));
    writer.UInt(f::kSource, static_cast<uint32_t>(key_.source));
    Buffer names;
    for (uint32_t i = 0; i < key_.count; ++i) names.AppendVarint(key_.name_iids[i]);
    writer.Packed(f::kNameIid, names);
    writer.Packed(f::kTickDelta, ticks_);
    writer.Packed(f::kValueDelta, values_);
    if (is_scaled_) {
      writer.Packed(f::kEnabledDeltaNs, enabled_);
      writer.Packed(f::kRunningDeltaNs, running_);
    }
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static void Append(Buffer* column, uint64_t value, uint64_t* previous) {
    column->AppendVarintUnchecked(ZigZag(static_cast<int64_t>(value - *previous)));
    *previous = value;
  }

  uint32_t count_ = 0;
  CounterBatchKey key_ = {};
  CounterReading previous_ = {};
  bool is_scaled_ = false;
  Buffer ticks_, values_, enabled_, running_;
};

// A thread's sets alternate, so several batches are open at once.
class CounterBatches {
 public:
  CounterBatch batches[8];

  // The batch for this key, starting an empty one if necessary; null if all are used by others.
  CounterBatch* For(const CounterBatchKey& key) {
    for (CounterBatch& batch : batches) {
      if (batch.Takes(key)) return &batch;
    }
    for (CounterBatch& batch : batches) {
      if (batch.count() != 0) continue;
      batch.Start(key);
      return &batch;
    }
    return nullptr;
  }

  void Flush(Buffer* out) {
    for (CounterBatch& batch : batches) {
      if (batch.count() > 0) batch.Flush(out);
    }
  }
};

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_COUNTER_BATCH_H_
