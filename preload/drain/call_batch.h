// The drain's open CallBatch packet: calls of one thread (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

struct BatchedCall {
  uint64_t sequence;
  uint64_t end_ticks;
  uint64_t duration;  // in the unit of the op's time source
  uint32_t parent_distance;
  uint32_t caller_iid;
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
    columns_.Put(kCallerIid, call.caller_iid);
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

}  // namespace dlhook::inline drain
