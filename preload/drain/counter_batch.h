// The drain's open CounterBatch packets: readings of one set of counters of one thread (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
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
  uint32_t count() const { return columns_.rows(); }
  bool Takes(const CounterBatchKey& key) const { return count() > 0 && !columns_.full() && key_ == key; }

  // For an empty batch: the key of the following readings.
  void SetKey(const CounterBatchKey& key) { key_ = key; }

  // False if out of memory: the reading is not in the batch.
  bool Add(const CounterReading& reading) {
    if (count() == 0 && !Start()) return false;
    columns_.PutDelta(kTickDelta, reading.ticks);
    for (uint32_t i = 0; i < key_.count; ++i) {
      columns_.PutSigned(kValueDelta, static_cast<int64_t>(reading.values[i] - previous_[i]));
      previous_[i] = reading.values[i];
    }
    columns_.PutDelta(kEnabledDeltaNs, reading.enabled_ns);
    columns_.PutDelta(kRunningDeltaNs, reading.running_ns);
    is_scaled_ = is_scaled_ || reading.enabled_ns != 0 || reading.running_ns != 0;
    columns_.EndRow();
    return true;
  }

  void Flush(Buffer* out) {
    if (!is_scaled_) columns_.Drop(kEnabledDeltaNs), columns_.Drop(kRunningDeltaNs);
    columns_.Flush(out);
  }

 private:
  using enum fields::CounterBatch::Number;

  bool Start() {
    if (!columns_.Start()) return false;
    memset(previous_, 0, sizeof previous_);
    is_scaled_ = false;
    columns_.Set(kThreadId, key_.thread_id);
    columns_.Set(kTid, key_.tid);
    columns_.Set(kKind, static_cast<uint32_t>(key_.kind));
    columns_.Set(kSource, static_cast<uint32_t>(key_.source));
    for (uint32_t i = 0; i < key_.count; ++i) columns_.Put(kNameIid, key_.name_iids[i]);
    return true;
  }

  CounterBatchKey key_ = {};
  bool is_scaled_ = false;
  uint64_t previous_[kMaxCountersOfSet];
  Columns<fields::Packet::kCounterBatch, fields::CounterBatch::kRepeated, 512, kMaxCountersOfSet> columns_;
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
      batch.SetKey(key);
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
