// The drain's open CallBatch packet: calls of one thread as encoded columns (see proto/call.proto).
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_CALL_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_CALL_BATCH_H_

#include "preload/format/packet_writer.h"
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
  static constexpr uint32_t kMaxCalls = 1024;
  static constexpr uint32_t kMaxVarintBytes = 10;

  uint32_t count() const { return count_; }
  uint32_t thread_id() const { return thread_id_; }

  // False if out of memory: the call is not in the batch.
  bool Add(uint32_t thread_id, uint32_t op_iid, const BatchedCall& call) {
    if (count_ == 0 && !Start(thread_id, call)) return false;
    op_.AppendVarintUnchecked(op_iid);
    sequence_.AppendVarintUnchecked(ZigZag(static_cast<int32_t>(call.sequence - previous_sequence_ - 1)) & 0xffffffff);
    end_.AppendVarintUnchecked(ZigZag(static_cast<int64_t>(call.end_ticks - previous_end_)));
    duration_.AppendVarintUnchecked(call.duration);
    parent_.AppendVarintUnchecked(call.parent_distance);
    caller_.AppendVarintUnchecked(call.caller_iid);
    previous_sequence_ = call.sequence;
    previous_end_ = call.end_ticks;
    if (call.status != 0) {
      status_index_.AppendVarint(count_);
      status_.AppendVarint(ZigZag(call.status) & 0xffffffff);
    }
    python_.Add(call.python_stack_iid, count_);
    stack_.Add(call.stack_iid, count_);
    ++count_;
    return true;
  }
  void AddAddress(uint32_t iid) { address_.AppendVarint(iid); }

  // True if `call` can't go into the open batch: another thread, a jump in the numbers, or the batch is full.
  bool MustFlushBefore(uint32_t thread_id, uint64_t sequence) const {
    if (count_ == 0) return false;
    int64_t jump = static_cast<int64_t>(sequence - previous_sequence_);
    return thread_id != thread_id_ || count_ == kMaxCalls || jump > INT32_MAX || jump < INT32_MIN + 1;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(Buffer* out) {
    namespace f = fields::CallBatch;
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(fields::Packet::kCallBatch);
    writer.UInt(f::kThreadId, thread_id_);
    writer.UInt(f::kBaseSequence, base_sequence_);
    writer.UInt(f::kBaseEndTicks, base_end_);
    writer.Packed(f::kOpIid, op_);
    writer.Packed(f::kSequenceDelta, sequence_);
    writer.Packed(f::kEndDeltaTicks, end_);
    writer.Packed(f::kDuration, duration_);
    writer.Packed(f::kParentDistance, parent_);
    writer.Packed(f::kCallerIid, caller_);
    writer.Packed(f::kAddressIid, address_);
    if (stack_.begun) writer.Packed(f::kStackIid, stack_.bytes);
    writer.Packed(f::kStatusIndex, status_index_);
    writer.Packed(f::kStatus, status_);
    if (python_.begun) writer.Packed(f::kPythonStackIid, python_.bytes);
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  // A column that starts at the first call with a value: empty in most batches.
  struct LateColumn {
    Buffer bytes;
    bool begun = false;

    void Add(uint32_t iid, uint32_t calls_before) {
      if (iid == 0 && !begun) return;
      for (uint32_t i = 0; !begun && i < calls_before; ++i) bytes.AppendVarint(0);
      begun = true;
      bytes.AppendVarint(iid);
    }
  };

  // Reserves memory for a whole batch, so that Add need not check.
  bool Start(uint32_t thread_id, const BatchedCall& call) {
    thread_id_ = thread_id;
    base_sequence_ = call.sequence - 1;
    base_end_ = call.end_ticks;
    previous_sequence_ = base_sequence_;
    previous_end_ = base_end_;
    python_.begun = stack_.begun = false;
    Buffer* const columns[] = {&op_,      &sequence_,     &end_,    &duration_,     &parent_,     &caller_,
                               &address_, &status_index_, &status_, &python_.bytes, &stack_.bytes};
    for (Buffer* column : columns) {
      column->Clear();
      if (!column->Reserve(kMaxVarintBytes * kMaxCalls)) return false;
    }
    return true;
  }

  uint32_t count_ = 0;
  uint32_t thread_id_ = 0;
  uint64_t base_sequence_ = 0;
  uint64_t base_end_ = 0;
  uint64_t previous_sequence_ = 0;
  uint64_t previous_end_ = 0;
  Buffer op_, sequence_, end_, duration_, parent_, caller_, address_, status_index_, status_;
  LateColumn python_, stack_;
};

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_CALL_BATCH_H_
