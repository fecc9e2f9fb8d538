// The drain's open ScopeBatch packet: scopes of one thread (see proto/call.proto).
// Thread: the drain's.
#pragma once

#include "preload/drain/columns.h"
#include "preload/format/record.h"
#include "preload/proto_fields.h"

namespace dlhook::inline drain {

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

}  // namespace dlhook::inline drain
