// The drain's open packets of columns (see proto/call.proto) but for those about GPUs and memory.
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
#include "preload/format/record.h"

namespace dlhook::inline drain {

// CallBatch packet: calls of one thread.
struct BatchedCall {
  uint64_t sequence;
  uint64_t end_ticks;
  uint64_t duration;  // in the unit of the op's time source
  uint32_t parent_distance;
  int32_t status;
  uint32_t python_stack_iid;
  uint32_t stack_iid;
  const uint64_t* addresses;  // address_count of the op
};

class CallBatch {
 public:
  uint32_t count() const { return columns_.rows(); }

  // False if out of memory: the call is not in the batch.
  bool Add(uint32_t thread_id, uint32_t op_iid, const BatchedCall& call) {
    if (count() == 0 && !Start(thread_id, call)) return false;
    columns_.Put(kOpIid, op_iid);
    columns_.Put(kSequenceDelta, ZigZag(static_cast<int32_t>(call.sequence - previous_sequence_ - 1)) & 0xffffffff);
    columns_.PutDelta(kEndDeltaTicks, call.end_ticks);
    columns_.Put(kDuration, call.duration);
    columns_.Put(kParentDistance, call.parent_distance);
    if (call.status != 0) {
      columns_.Put(kStatusIndex, count());
      columns_.Put(kStatus, ZigZag(call.status) & 0xffffffff);
    }
    columns_.PutRare(kPythonStackIid, call.python_stack_iid);
    columns_.PutRare(kStackIid, call.stack_iid);
    previous_sequence_ = call.sequence;
    columns_.EndRow();
    return true;
  }
  void AddAddress(uint32_t iid) { columns_.Append(kAddressIid, iid); }

  // True if `call` can't go into the open batch: another thread, a jump in the numbers, or the batch is full.
  bool MustFlushBefore(uint32_t thread_id, uint64_t sequence) const {
    if (count() == 0) return false;
    int64_t jump = static_cast<int64_t>(sequence - previous_sequence_);
    return thread_id != thread_id_ || columns_.full() || jump > INT32_MAX || jump < INT32_MIN + 1;
  }

  void Flush(Buffer* out) { columns_.Flush(out); }

 private:
  using enum fields::CallBatch::Number;

  bool Start(uint32_t thread_id, const BatchedCall& call) {
    if (!columns_.Start()) return false;
    thread_id_ = thread_id;
    previous_sequence_ = call.sequence - 1;
    columns_.Set(kThreadId, thread_id);
    columns_.Set(kBaseSequence, previous_sequence_);
    columns_.Set(kBaseEndTicks, call.end_ticks);
    columns_.SetBase(kEndDeltaTicks, call.end_ticks);
    return true;
  }

  uint32_t thread_id_ = 0;
  uint64_t previous_sequence_ = 0;
  Columns<fields::Packet::kCallBatch, fields::CallBatch::kRepeated, 1024> columns_;
};

// ScopeBatch packet: scopes of one thread.
class ScopeBatch {
 public:
  uint32_t count() const { return columns_.rows(); }

  // True if a scope of this thread can't go into the open batch.
  bool MustFlushBefore(uint32_t thread_id) const { return count() > 0 && (thread_id != thread_id_ || columns_.full()); }

  // False if out of memory: the scope is not in the batch.
  bool Add(uint32_t thread_id, uint32_t name_iid, uint32_t python_stack_iid, const ScopeRecord& scope) {
    if (count() == 0 && !Start(thread_id, scope)) return false;
    columns_.Put(kNameIid, name_iid);
    columns_.PutDelta(kEndDeltaTicks, scope.end_ticks);
    columns_.Put(kDurationTicks, scope.end_ticks - scope.start_ticks);
    columns_.Put(kKind, static_cast<uint32_t>(scope.kind));
    columns_.PutDelta(kLinkDelta, static_cast<uint64_t>(scope.link));
    columns_.PutDelta(kFirstSequenceDelta, scope.first_sequence);
    columns_.Put(kCallCount, scope.call_count);
    columns_.PutRare(kPythonStackIid, python_stack_iid);
    columns_.EndRow();
    return true;
  }

  void Flush(Buffer* out) { columns_.Flush(out); }

 private:
  using enum fields::ScopeBatch::Number;

  bool Start(uint32_t thread_id, const ScopeRecord& first) {
    if (!columns_.Start()) return false;
    thread_id_ = thread_id;
    columns_.Set(kThreadId, thread_id);
    columns_.Set(kBaseEndTicks, first.end_ticks);
    columns_.Set(kBaseFirstSequence, first.first_sequence);
    columns_.SetBase(kEndDeltaTicks, first.end_ticks);
    columns_.SetBase(kFirstSequenceDelta, first.first_sequence);
    return true;
  }

  uint32_t thread_id_ = 0;
  Columns<fields::Packet::kScopeBatch, fields::ScopeBatch::kRepeated, 1024> columns_;
};

// SampleBatch packet: samples of one thread's CPU time.
struct BatchedSample {
  uint32_t address_iid;
  uint32_t stack_iid;
  uint32_t python_stack_iid;
};

class SampleBatch {
 public:
  static constexpr uint32_t kMaxSamples = 1024;

  uint32_t count() const { return columns_.rows(); }

  // True if a sample of this thread can't go into the open batch.
  bool MustFlushBefore(uint32_t thread_id) const { return count() > 0 && (thread_id != thread_id_ || columns_.full()); }

  // False if out of memory: the sample is not in the batch.
  bool Add(uint32_t thread_id, const BatchedSample& ids, const SampleRecord& sample) {
    if (count() == 0 && !columns_.Start()) return false;
    thread_id_ = thread_id;
    columns_.PutDelta(kTickDelta, sample.ticks);
    columns_.Put(kIntervals, sample.intervals);
    columns_.Put(kAddressIid, ids.address_iid);
    columns_.Put(kStackIid, ids.stack_iid);
    columns_.Put(kCut, sample.cut);
    columns_.Put(kPythonStackIid, ids.python_stack_iid);
    columns_.Put(kDepth, sample.header.depth);
    columns_.Put(kState, static_cast<uint32_t>(sample.state));
    columns_.EndRow();
    return true;
  }

  void Flush(uint64_t interval_ns, Buffer* out) {
    columns_.Set(kThreadId, thread_id_);
    columns_.Set(kIntervalNs, interval_ns);
    columns_.Flush(out);
  }

 private:
  using enum fields::SampleBatch::Number;

  uint32_t thread_id_ = 0;
  Columns<fields::Packet::kSampleBatch, fields::SampleBatch::kRepeated, kMaxSamples> columns_;
};

// CounterBatch packets: readings of one set of counters of one thread.
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
