// The drain's open SampleBatch packet: samples of one thread's CPU time (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
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

}  // namespace dlhook::inline drain
