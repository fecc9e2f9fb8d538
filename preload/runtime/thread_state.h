// What an application thread knows about itself while it records. Plain data, valid when all zero (hooks run before our
// constructor does), in memory that the kernel wipes in a forked child: a child sees `active == 0` and starts over
// without taking any lock of its parent.
// Thread: each ThreadState is used by its own thread only.
#ifndef DLHOOK_PRELOAD_RUNTIME_THREAD_STATE_H_
#define DLHOOK_PRELOAD_RUNTIME_THREAD_STATE_H_

#include <cstdint>

#include "preload/format/hook_table.h"
#include "preload/format/record.h"
#include "preload/format/ring.h"
#include "preload/format/session.h"

// What rooms keep for a thread.
namespace dlhook {
inline namespace format {
struct TotalsTable;
}
inline namespace python {
struct PythonThread;
}
inline namespace unwind {
struct NativeStackThread;
}
inline namespace counters {
struct CounterThread;
}
}  // namespace dlhook

namespace dlhook::inline runtime {

// (call site, hook) -> real function. Direct-mapped; a miss goes to the resolver.
struct BindingCacheEntry {
  uint64_t key;
  void* real;
};
constexpr uint32_t kBindingCacheEntries = 64;
constexpr uint32_t kMaxOpenCalls = 16;

// A recorded call that has not returned yet. `frame` is an address in its stack frame: a call whose frame lies below
// that of a new one, or in the same place, was left by longjmp or an exception.
struct OpenCall {
  uintptr_t frame;
  uint64_t sequence;
};

// What the CUDA library said an address belongs to (track/host_memory.h).
struct MemoryAnswer {
  uint64_t address;
  uint32_t generation;
  uint32_t space;
};

// A variant pack of cuDNN's graph API that this thread made (track/cudnn_graph.h). Direct-mapped: of two with the same place
// the later one stays.
struct VariantPack {
  static constexpr uint32_t kTensors = 20;
  const void* descriptor;  // null: free
  uint32_t owner;          // thread_id of the thread that made it: a later thread finds its predecessor's
  uint32_t executions;
  uint32_t uid_count;
  uint32_t pointer_count;
  int64_t uids[kTensors];
  const void* pointers[kTensors];
};
constexpr uint32_t kVariantPacks = 64;
inline uint32_t VariantPackIndex(const void* descriptor) {
  return static_cast<uint32_t>((reinterpret_cast<uint64_t>(descriptor) * 0x9e3779b97f4a7c15u) >> 58);
}

// What executing a plan needs to know of it (track/cudnn_graph.h).
struct KnownPlan {
  static constexpr uint32_t kTensors = 3;
  const void* plan;
  uint32_t generation;
  uint32_t definition;
  int64_t uids[kTensors];  // of the main node's tensors
  uint32_t uid_count;
};
constexpr uint32_t kKnownPlans = 64;

// A scope that has not ended yet (runtime/scope.h). Its name lies in ThreadState.scope_names.
struct OpenScopeEntry {
  const void* owner;
  uint64_t start_ticks;
  uint64_t first_sequence;
  int64_t link;
  uint32_t python_stack;
  uint16_t name_offset;
  uint16_t name_bytes;
  ScopeKind kind;
  uint8_t cut;
  uint8_t may_run_python;  // code of the user's may run directly inside
};
constexpr uint32_t kMaxOpenScopes = 64;
constexpr uint32_t kScopeNamesBytes = 8192;

constexpr uint32_t kMaxTotalsTables = 4;

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
  uint32_t chunk;  // that the ring is in, + 1; 0: in the slot's own memory (runtime/ring_growth.h)
  uint32_t moves;  // 1: on the way to next_chunk
  uint32_t next_chunk;
  uint32_t full_calls;  // that found the ring full since somebody looked for the drain
  uint32_t full_looks;
  uint32_t totals_count;
  TotalsTable* totals[kMaxTotalsTables];  // runtime/full_ring.h
  RecordHeader* staging;
  uint64_t chunk_refused_at[2];  // the drain's tail + 1 when there was none for records, for totals: until it moves on
  uint64_t resume_backlog;       // single calls are written again when no more than that waits for the drain
  uint32_t detail_families;      // whose calls have more to be told than a record holds (runtime/call_detail.h)
  uint32_t scope_depth;
  uint32_t scope_names_used;  // bytes
  OpenCall open[kMaxOpenCalls];
  BindingCacheEntry cache[kBindingCacheEntries];
  // From here on nothing is cleared for a new thread: what lies there is told apart by generation or owner, and memory that was
  // never used stays unused.
  MemoryAnswer memory_answers[64];
  VariantPack packs[kVariantPacks];
  KnownPlan plans[kKnownPlans];
  OpenScopeEntry scopes[kMaxOpenScopes];
  char scope_names[kScopeNamesBytes];
  // Null before they are needed first. Pages of their own, used again by the slot's next thread.
  PythonThread* python;              // stacks that were met
  NativeStackThread* native_stacks;  // the last stack, rules of frames that were met
  CounterThread* counters;           // open counters
};

// The thread's words of TLS (initial-exec, < 256 bytes). `real_from_thunk`: see link/thunks.S.
extern "C" {
extern __thread ThreadState* dlhook_thread __attribute__((visibility("hidden")));
extern __thread void* dlhook_real_from_thunk __attribute__((visibility("hidden")));
}

// Makes the calling thread ready to record: session, slot, ring. Null where that is not possible (no memory, finished; the
// reason is counted) or where the call belongs to none of the families asked for: a process that makes only such calls leaves
// nothing behind. Saves errno.
ThreadState* AttachThread(uint32_t family_bit);

// Null, or the space of a call's record of `words` words, not visible to the drain before CommitRecord. Counts what it drops.
// `frame`: an address in the stack frame that commits. What finds no room: runtime/full_ring.h.
RecordHeader* ReserveCallSlow(ThreadState* thread, uint32_t words, uintptr_t frame);

inline RecordHeader* ReserveCall(ThreadState* thread, uint32_t words, uintptr_t frame) {
  RecordHeader* record = thread->ring.Reserve(words, frame);
  return __builtin_expect(record != nullptr, 1) ? record : ReserveCallSlow(thread, words, frame);
}

// The next sequence number. In one instruction: a signal handler that makes calls must not get the same one.
inline uint64_t TakeSequence(ThreadState* thread) {
  uint64_t number = 1;
  asm("xaddq %0, %1" : "+r"(number), "+m"(thread->next_sequence) : : "cc");
  return number + 1;
}

// The same for a record that is no call, also where calls find no more room: a loss is the caller's business.
RecordHeader* ReserveDescription(ThreadState* thread, uint32_t words);

// The same for a record that calls can't do without, or that stands beside them; DLHOOK_ON_FULL=wait waits for it, too.
RecordHeader* ReserveForCalls(ThreadState* thread, uint32_t words, uintptr_t frame);
RecordHeader* ReserveScope(ThreadState* thread, uint32_t words, uintptr_t frame);  // counts what it drops

__attribute__((cold)) void CommitNoticed(ThreadState* thread, const RecordHeader* record);
inline void CommitRecord(ThreadState* thread, const RecordHeader* record) {
  bool is_noticed = thread->ring.head + uint64_t{record->words} * 8 >= thread->ring.notice_at;
  if (__builtin_expect(is_noticed, 0)) return CommitNoticed(thread, record);
  thread->ring.Commit(record);
}

// Forgets recorded calls that were left without returning: their frames don't lie above `frame`.
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

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_THREAD_STATE_H_
