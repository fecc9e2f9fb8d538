// What an application thread knows about itself while it records. Plain data, valid when all zero (hooks run before our
// constructor does), in memory that the kernel wipes in a forked child: a child sees `active == 0` and starts over
// without taking any lock of its parent.
// Thread: each ThreadState is used by its own thread only.
#ifndef DLHOOK_PRELOAD_CORE_THREAD_STATE_H_
#define DLHOOK_PRELOAD_CORE_THREAD_STATE_H_

#include <cstdint>

#include "preload/core/hook_table.h"
#include "preload/core/record.h"
#include "preload/core/ring.h"
#include "preload/core/session.h"

namespace dlhook {

// (call site, hook) -> real function. Direct-mapped; a miss goes to the resolver.
struct BindingCacheEntry {
  uint64_t key;
  void* real;
};
constexpr uint32_t kBindingCacheEntries = 64;
constexpr uint32_t kMaxOpenCalls = 16;

// A recorded call that has not returned yet. `frame` is an address in its stack frame: a call whose frame lies below
// that of a new one was left by longjmp or an exception.
struct OpenCall {
  uintptr_t frame;
  uint64_t sequence;
};

// On cache lines of its own.
struct alignas(64) ThreadState {
  uint32_t active;
  uint32_t thread_id;
  uint32_t tid;
  ClockKind clock;
  uint32_t depth;
  uint32_t cache_generation;
  SessionHeader* session;
  RingProducer ring;
  uint64_t next_sequence;
  OpenCall open[kMaxOpenCalls];
  BindingCacheEntry cache[kBindingCacheEntries];
};

// The thread's words of TLS (initial-exec, < 256 bytes). `real_from_thunk`: see link/thunks.S.
extern "C" {
extern __thread ThreadState* dlhook_thread __attribute__((visibility("hidden")));
extern __thread void* dlhook_real_from_thunk __attribute__((visibility("hidden")));
}

// Makes the calling thread ready to record: session, slot, ring. Null where that is not possible (no memory, finished);
// the reason is counted. Saves errno.
ThreadState* AttachThread();

// Null, or the space of a call's record of `words` words, not visible to the drain before CommitRecord. Counts what it drops.
RecordHeader* ReserveCallSlow(ThreadState* thread, uint32_t words);

inline RecordHeader* ReserveCall(ThreadState* thread, uint32_t words) {
  RecordHeader* record = thread->ring.Reserve(words);
  return __builtin_expect(record != nullptr, 1) ? record : ReserveCallSlow(thread, words);
}

// The same for a record that is no call: a loss is the caller's business.
RecordHeader* ReserveDescription(ThreadState* thread, uint32_t words);

inline void CommitRecord(ThreadState* thread, const RecordHeader* record) { thread->ring.Commit(record); }

// Forgets recorded calls that were left without returning: their frames lie below `frame`.
void DropStaleOpenCalls(ThreadState* thread, uintptr_t frame);

// Sequence number of the recorded call around the current one, or 0.
inline uint64_t EnclosingSequence(const ThreadState* thread) {
  if (thread->depth == 0) return 0;
  uint32_t top = thread->depth <= kMaxOpenCalls ? thread->depth : kMaxOpenCalls;
  return thread->open[top - 1].sequence;
}

// Opens a call inside another one (or after one that never returned); returns its distance to its parent, 0: none.
// Outlined: most calls are not nested.
uint32_t OpenNestedCall(ThreadState* thread, uintptr_t frame, uint64_t sequence);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_THREAD_STATE_H_
