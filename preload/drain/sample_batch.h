// The drain's open SampleBatch packet: samples of one thread's CPU time as encoded columns (see proto/call.proto).
// Thread: the drain's.
#ifndef DLHOOK_PRELOAD_DRAIN_SAMPLE_BATCH_H_
#define DLHOOK_PRELOAD_DRAIN_SAMPLE_BATCH_H_

#include "preload/format/packet_writer.h"
#include "preload/format/record.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

struct BatchedSample {
  uint32_t address_iid;
  uint32_t stack_iid;
  uint32_t python_stack_iid;
};

class SampleBatch {
 public:
  static constexpr uint32_t kMaxSamples = 1024;

  uint32_t count() const { return count_; }

  // True if a sample of this thread can't go into the open batch.
  bool MustFlushBefore(uint32_t thread_id) const {
    return count_ > 0 && (thread_id != thread_id_ || count_ == kMaxSamples);
  }

  // False if out of memory: the sample is not in the batch.
  bool Add(uint32_t thread_id, const BatchedSample& ids, const SampleRecord& sample) {
    if (count_ == 0 && !Start(thread_id)) return false;
    ticks_.AppendVarintUnchecked(ZigZag(static_cast<int64_t>(sample.ticks - previous_ticks_)));
    intervals_.AppendVarintUnchecked(sample.intervals);
    address_.AppendVarintUnchecked(ids.address_iid);
    stack_.AppendVarintUnchecked(ids.stack_iid);
    cut_.AppendVarintUnchecked(sample.cut);
    python_.AppendVarintUnchecked(ids.python_stack_iid);
    depth_.AppendVarintUnchecked(sample.header.depth);
    state_.AppendVarintUnchecked(static_cast<uint32_t>(sample.state));
    previous_ticks_ = sample.ticks;
    ++count_;
    return true;
  }

  // Appends the packet to `out` and starts an empty batch.
  void Flush(uint64_t interval_ns, Buffer* out) {
    namespace f = fields::SampleBatch;
    PacketWriter writer(out);
    size_t packet = writer.Begin(fields::Trace::kPacket);
    size_t batch = writer.Begin(fields::Packet::kSampleBatch);
    writer.UInt(f::kThreadId, thread_id_);
    writer.UInt(f::kIntervalNs, interval_ns);
    writer.Packed(f::kTickDelta, ticks_);
    writer.Packed(f::kIntervals, intervals_);
    writer.Packed(f::kAddressIid, address_);
    writer.Packed(f::kStackIid, stack_);
    writer.Packed(f::kCut, cut_);
    writer.Packed(f::kPythonStackIid, python_);
    writer.Packed(f::kDepth, depth_);
    writer.Packed(f::kState, state_);
    writer.End(batch);
    writer.End(packet);
    count_ = 0;
  }

 private:
  static constexpr uint32_t kMaxVarintBytes = 10;

  // Reserves memory for a whole batch, so that Add need not check.
  bool Start(uint32_t thread_id) {
    thread_id_ = thread_id;
    previous_ticks_ = 0;
    for (Buffer* column : {&ticks_, &intervals_, &address_, &stack_, &cut_, &python_, &depth_, &state_}) {
      column->Clear();
      if (!column->Reserve(kMaxVarintBytes * kMaxSamples)) return false;
    }
    return true;
  }

  uint32_t count_ = 0;
  uint32_t thread_id_ = 0;
  uint64_t previous_ticks_ = 0;
  Buffer ticks_, intervals_, address_, stack_, cut_, python_, depth_, state_;
};

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_SAMPLE_BATCH_H_
