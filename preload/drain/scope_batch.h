// The drain's open ScopeBatch packet: scopes of one thread as encoded columns (see proto/call.proto).
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_SCOPE_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_SCOPE_BATCH_H_

#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

class ScopeBatch {
 public:
  static constexpr uint32_t kMaxScopes = 1024;

  uint32_t count() const { return count_; }

  // True if a scope of this thread can't go into the open batch.
  bool MustFlushBefore(uint32_t thread_id) const {
    return count_ > 0 && (thread_id != thread_id_ || count_ == kMaxScopes);
  }

  // False if out of memory: the scope is not in the batch.
  bool Add(uint32_t thread_id, uint32_t name_iid, uint32_t python_stack_iid, const ScopeRecord& scope) {
    if (count_ == 0 && !Start(thread_id, scope)) return false;
    name_.AppendVarintUnchecked(name_iid);
    end_.AppendVarintUnchecked(ZigZag(static_cast<int64_t>(scope.end_ticks - previous_end_)));
    duration_.AppendVarintUnchecked(scope.end_ticks - scope.start_ticks);
    kind_.AppendVarintUnchecked(static_cast<uint32_t>(scope.kind));
    link_.AppendVarintUnchecked(ZigZag(static_cast<int64_t>(static_cast<uint64_t>(scope.link) - previous_link_)));
    sequence_.AppendVarintUnchecked(ZigZag(static_cast<int64_t>(scope.first_sequence - previous_sequence_)));
    calls_.AppendVarintUnchecked(scope.call_count);
    python_.AppendVarintUnchecked(python_stack_iid);
    has_python_ = has_python_ || python_stack_iid != 0;
    previous_end_ = scope.end_ticks;
    previous_link_ = static_cast<uint64_t>(scope.link);
    previous_sequence_ = scope.first_sequence;
    ++count_;
    return true;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(Buffer* out) {
    namespace f = fields::ScopeBatch;
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(fields::Packet::kScopeBatch);
    writer.UInt(f::kThreadId, thread_id_);
    writer.Packed(f::kNameIid, name_);
    writer.UInt(f::kBaseEndTicks, base_end_);
    writer.Packed(f::kEndDeltaTicks, end_);
    writer.Packed(f::kDurationTicks, duration_);
    writer.Packed(f::kKind, kind_);
    writer.Packed(f::kLinkDelta, link_);
    writer.UInt(f::kBaseFirstSequence, base_sequence_);
    writer.Packed(f::kFirstSequenceDelta, sequence_);
    writer.Packed(f::kCallCount, calls_);
    if (has_python_) writer.Packed(f::kPythonStackIid, python_);
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;

  // Reserves memory for a whole batch, so that Add need not check.
  bool Start(uint32_t thread_id, const ScopeRecord& first) {
    thread_id_ = thread_id;
    base_end_ = previous_end_ = first.end_ticks;
    base_sequence_ = previous_sequence_ = first.first_sequence;
    previous_link_ = 0;
    has_python_ = false;
    Buffer* const columns[] = {&name_, &end_, &duration_, &kind_, &link_, &sequence_, &calls_, &python_};
    for (Buffer* column : columns) {
      column->Clear();
      if (!column->Reserve(kMaxVarintBytes * kMaxScopes)) return false;
    }
    return true;
  }

  uint32_t count_ = 0;
  uint32_t thread_id_ = 0;
  bool has_python_ = false;
  uint64_t base_end_ = 0;
  uint64_t base_sequence_ = 0;
  uint64_t previous_end_ = 0;
  uint64_t previous_link_ = 0;
  uint64_t previous_sequence_ = 0;
  Buffer name_, end_, duration_, kind_, link_, sequence_, calls_, python_;
};

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_SCOPE_BATCH_H_
