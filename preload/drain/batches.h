// The drain's open packets of columns (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include <bit>

#include "preload/format/gpu_records.h"
#include "preload/format/packet_writer.h"

namespace dlhook::inline drain {

// A message of columns while it is filled. Columns and the other fields go by their numbers.
// `Rows`: fields::…::Rows. `kMostOfRow`: elements that a row adds to one column.
template <typename Rows, uint32_t kMaxRows = 1024, uint32_t kMostOfRow = 1>
class Columns {
 public:
  uint32_t rows() const { return rows_; }
  bool full() const { return rows_ == kMaxRows; }

  // Whether a row with this value of the message's first field (a thread, a source) can go into it.
  bool Takes(uint64_t key) const { return rows_ == 0 || (!full() && numbers_[1] == key); }
  // Adds a row of what these have. False if out of memory: it is not added.
  template <typename... Parts>
  bool Add(uint64_t key, const Parts&... parts) {
    if (!Open(key)) return false;
    EndRow(parts...);
    return true;
  }

  // Before the first row: empties all of it, and reserves memory for all rows, so that adding need not check.
  bool Open(uint64_t key) {
    if (rows_ > 0) return true;
    for (uint32_t field = 0; field < kEnd; ++field) {
      numbers_[field] = 0;
      columns_[field].Clear();
      if (IsColumn(field) && !columns_[field].Reserve(kMaxVarintBytes * kMaxRows * kMostOfRow)) return false;
    }
    numbers_[1] = key;
    return true;
  }

  // A field that is no column.
  void Set(uint32_t field, uint64_t value) { numbers_[field] = value; }
  // In the first row: what the differences in this column begin at.
  void Begin(uint32_t base, uint32_t column, uint64_t value) {
    if (rows_ == 0) numbers_[base] = numbers_[column] = value;
  }
  // Once a row, and in the order of rows.
  void Put(uint32_t column, uint64_t value) { columns_[column].AppendVarintUnchecked(value); }
  void PutSigned(uint32_t column, int64_t value) { Put(column, ZigZag(value)); }
  // The difference to the previous row's.
  void PutDelta(uint32_t column, uint64_t value) {
    PutSigned(column, static_cast<int64_t>(value - numbers_[column]));
    numbers_[column] = value;
  }
  // Of a column that stays empty until a value is not 0.
  void PutRare(uint32_t column, uint64_t value) {
    Buffer& bytes = columns_[column];
    if (value == 0 && bytes.size() == 0) return;
    for (uint32_t i = bytes.size() == 0 ? rows_ : 0; i > 0; --i) bytes.AppendVarintUnchecked(0);
    bytes.AppendVarintUnchecked(value);
  }
  template <typename... Parts>
  void EndRow(const Parts&... parts) {
    (Rows::Put(parts, this), ...);
    ++rows_;
  }
  // Any number of elements.
  void Append(uint32_t column, uint64_t value) { columns_[column].AppendVarint(value); }
  void Drop(uint32_t column) { columns_[column].Clear(); }

  // Appends the packet to `out`, if there are rows, and forgets them.
  void Flush(Buffer* out) {
    if (rows_ == 0) return;
    PacketScope scope(out, Rows::kPacket);
    for (uint32_t field = 1; field < kEnd; ++field) {
      IsColumn(field) ? scope.writer.Packed(field, columns_[field]) : scope.writer.UInt(field, numbers_[field]);
    }
    rows_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;
  static constexpr uint32_t kEnd = 32 - std::countl_zero(Rows::kColumns);  // the last field is a column
  static constexpr bool IsColumn(uint32_t field) { return (Rows::kColumns >> field & 1) != 0; }

  uint32_t rows_ = 0;
  uint64_t numbers_[kEnd] = {};  // of a column: what the next difference is to
  Buffer columns_[kEnd];
};

// Parts of rows that records lack, by the names of the columns.
struct StackIids {
  uint32_t address_iid;
  uint32_t stack_iid;
  uint32_t python_stack_iid;
};

struct BatchedCall {
  uint32_t op_iid;
  uint64_t sequence;
  uint64_t end_ticks;
  uint64_t duration;  // in the unit of the op's time source
  uint32_t parent_distance;
  int32_t returned = 0;                 // status
  const uint64_t* addresses = nullptr;  // address_count of the op
  uint32_t python_stack_iid = 0;
  uint32_t stack_iid = 0;
};

// Calls of one thread.
class CallBatch {
 public:
  uint32_t rows() const { return columns_.rows(); }

  // False if out of memory: the call is not in the batch.
  bool Add(uint32_t thread_id, const BatchedCall& call) {
    using enum fields::CallBatch::Number;
    if (!columns_.Open(thread_id)) return false;
    if (rows() == 0) columns_.Set(kBaseSequence, previous_sequence_ = call.sequence - 1);
    columns_.Put(kSequenceDelta, ZigZag(static_cast<int32_t>(call.sequence - previous_sequence_ - 1)) & 0xffffffff);
    previous_sequence_ = call.sequence;
    if (call.returned != 0) {
      columns_.Put(kStatusIndex, rows());
      columns_.Put(kStatus, ZigZag(call.returned) & 0xffffffff);
    }
    columns_.EndRow(call);
    return true;
  }
  void AddAddress(uint32_t iid) { columns_.Append(fields::CallBatch::kAddressIid, iid); }

  // False: another thread, a jump in the numbers, or the batch is full.
  bool Takes(uint32_t thread_id, uint64_t sequence) const {
    int64_t jump = static_cast<int64_t>(sequence - previous_sequence_);
    return rows() == 0 || (columns_.Takes(thread_id) && jump <= INT32_MAX && jump > INT32_MIN);
  }

  void Flush(Buffer* out) { columns_.Flush(out); }

 private:
  uint64_t previous_sequence_ = 0;
  Columns<fields::CallBatch::Rows> columns_;
};

// Readings of one set of counters of one thread.
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
  uint32_t rows() const { return columns_.rows(); }
  bool Takes(const CounterBatchKey& key) const { return rows() > 0 && !columns_.full() && key_ == key; }

  // For an empty batch: the key of the following readings.
  void SetKey(const CounterBatchKey& key) { key_ = key; }

  // False if out of memory: the reading is not in the batch.
  bool Add(const CounterReading& reading) {
    if (!columns_.Open(key_.thread_id)) return false;
    if (rows() == 0) Start();
    for (uint32_t i = 0; i < key_.count; ++i) {
      columns_.PutSigned(kValueDelta, static_cast<int64_t>(reading.values[i] - previous_[i]));
      previous_[i] = reading.values[i];
    }
    is_scaled_ = is_scaled_ || reading.enabled_ns != 0 || reading.running_ns != 0;
    columns_.EndRow(reading);
    return true;
  }

  void Flush(Buffer* out) {
    if (!is_scaled_) columns_.Drop(kEnabledDeltaNs), columns_.Drop(kRunningDeltaNs);
    columns_.Flush(out);
  }

 private:
  using enum fields::CounterBatch::Number;

  void Start() {
    memset(previous_, 0, sizeof previous_);
    is_scaled_ = false;
    columns_.Set(kTid, key_.tid);
    columns_.Set(kKind, static_cast<uint32_t>(key_.kind));
    columns_.Set(kSource, static_cast<uint32_t>(key_.source));
    for (uint32_t i = 0; i < key_.count; ++i) columns_.Put(kNameIid, key_.name_iids[i]);
  }

  CounterBatchKey key_ = {};
  bool is_scaled_ = false;
  uint64_t previous_[kMaxCountersOfSet];
  Columns<fields::CounterBatch::Rows, 512, kMaxCountersOfSet> columns_;
};

// A thread's sets alternate, and links that one thread records for many (external correlation) are interleaved, so several
// batches are open at once. This one, else an empty one; null if all are used by others or full.
template <typename Batch, size_t kCount, typename Key>
Batch* BatchFor(const Key& key, Batch (&batches)[kCount]) {
  Batch* found = nullptr;
  for (Batch& batch : batches) {
    if (batch.rows() > 0 && batch.Takes(key)) return &batch;
    if (batch.rows() == 0 && found == nullptr) found = &batch;
  }
  return found;
}

}  // namespace dlhook::inline drain
