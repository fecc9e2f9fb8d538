// An application thread's own state while it records. Plain data, valid when all zero (hooks run before the shim's
// constructor), in memory that the kernel wipes in a forked child: a child sees `active == 0` and starts over without
// taking any lock of its parent.
// Thread: each ThreadState is used by its own thread only.
#pragma once

#include <emmintrin.h>

#include "preload/format/hook_table.h"
#include "preload/format/record.h"
#include "preload/format/ring.h"
#include "preload/format/session.h"

// State of other rooms, per thread.
namespace dlhook {
inline namespace format {
struct OpenScopes;
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
inline namespace sample {
struct SampleThread;
}
}  // namespace dlhook

namespace dlhook::inline runtime {

// (call site, hook) -> real function. Direct-mapped; a miss goes to the resolver. An entry is read by one instruction and
// written by one: a signal handler may replace it, fork or leave before and after, but not in between.
struct alignas(16) BindingCacheEntry {
  uint64_t key;   // BindingCacheKey()
  uint64_t real;  // kAddressBits, and above them those of the binding generation
};
constexpr uint64_t kAddressBits = (uint64_t{1} << 48) - 1;

inline uint64_t BindingCacheKey(HookId hook, void* caller) {
  return reinterpret_cast<uint64_t>(caller) | (uint64_t{hook} << 48);
}
inline BindingCacheEntry LoadBinding(const BindingCacheEntry& entry) {
  __m128i both;
  asm("movdqa %1, %0" : "=x"(both) : "m"(entry));  // the compiler would make two loads of an intrinsic's
  auto key = static_cast<uint64_t>(_mm_cvtsi128_si64(both));
  return {key, static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both)))};
}
inline void StoreBinding(BindingCacheEntry* entry, uint64_t key, uint64_t real) {
  __m128i both = _mm_set_epi64x(static_cast<int64_t>(real), static_cast<int64_t>(key));
  asm volatile("movdqa %1, %0" : "=m"(*entry) : "x"(both));
}
constexpr uint32_t kBindingCacheEntries = 256;
constexpr uint32_t kMaxOpenCalls = 16;

// A recorded call that has not returned yet. `frame` is the place of `sequence` in its stack frame: see
// DropStaleOpenCalls.
struct OpenCall {
  uintptr_t frame;
  uint64_t sequence;
};

// What an address belongs to according to the CUDA library (track/cuda_state.h).
struct MemoryAnswer {
  uint64_t address;
  uint32_t generation;
  HostMemory memory;
};

// A variant pack of cuDNN's graph API that this thread created (track/cudnn_graph.h). Direct-mapped: of two with the
// same place the later one stays.
struct VariantPack {
  static constexpr uint32_t kTensors = 20;
  const void* descriptor;  // null: free
  uint32_t owner;          // thread_id of the thread that created it: a later thread finds its predecessor's
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

// What the execution of a plan needs from it (track/cudnn_graph.h).
struct KnownPlan {
  static constexpr uint32_t kTensors = 3;
  const void* plan;
  uint32_t generation;
  uint32_t definition;
  int64_t uids[kTensors];  // of the main node's tensors
  uint32_t uid_count;
};
constexpr uint32_t kKnownPlans = 64;

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
  uint32_t chunk;  // the ring's chunk + 1; 0: the slot's own memory (runtime/full_ring.h)
  uint32_t moves;  // 1: moving to next_chunk
  uint32_t next_chunk;
  uint32_t full_calls;  // that found the ring full since the last check of the drain
  uint32_t full_looks;
  uint32_t totals_count;
  TotalsTable* totals[kMaxTotalsTables];  // runtime/full_ring.h
  RecordHeader* staging;
  uint64_t chunk_refused_at[2];  // tail + 1 when no chunk was free (for records, totals): retry when tail moves
  uint64_t resume_backlog;       // single calls resume when the backlog is no larger
  uint32_t detail_families;      // whose calls may have details (runtime/parts.h)
  uint32_t scope_depth;
  uint32_t scope_names_used;  // bytes
  uint32_t is_sampling;       // 1: in the handler that takes a sample, which must not start threads
  uint32_t is_asking;         // 1: dlhook asks a library something: what that does is not the program's
  OpenCall open[kMaxOpenCalls];
  BindingCacheEntry cache[kBindingCacheEntries];
  // From here on nothing is cleared for a new thread: entries are validated by generation or owner, and untouched
  // memory stays unallocated.
  MemoryAnswer memory_answers[64];
  VariantPack packs[kVariantPacks];
  KnownPlan plans[kKnownPlans];
  // Null until first needed. Separate pages, reused by the slot's next thread.
  OpenScopes* scopes;                // in the session's mapping
  PythonThread* python;              // cached stacks
  NativeStackThread* native_stacks;  // the last stack, cached unwind rules
  CounterThread* counters;           // open counters
  SampleThread* samples;             // its timer
};

// In TLS (initial-exec, < 256 bytes).
extern "C" {
extern __thread ThreadState* dlhook_thread __attribute__((visibility("hidden")));
}

// Prepares the calling thread to record: session, slot, ring. Null if that is not possible (no memory, finished; the
// reason is counted) or if the call's family is not requested: a process that makes only such calls leaves nothing
// behind. `family_bit` kForSamples: whatever is requested. Saves errno.
constexpr uint32_t kForSamples = 0;
ThreadState* AttachThread(uint32_t family_bit);

// Null, or the space of a call's record of `words` words, invisible to the drain before CommitRecord. Counts what it
// drops. `mark`: in the stack frame that commits. Calls without room: runtime/full_ring.h.
RecordHeader* ReserveCallSlow(ThreadState* thread, uint32_t words, FrameMark* mark);

inline RecordHeader* ReserveCall(ThreadState* thread, uint32_t words, FrameMark* mark) {
  RecordHeader* record = thread->ring.Reserve(words, mark);
  return __builtin_expect(record != nullptr, 1) ? record : ReserveCallSlow(thread, words, mark);
}

// The next sequence number. In one instruction: a signal handler that makes calls must not get the same one.
inline uint64_t TakeSequence(ThreadState* thread) {
  uint64_t number = 1;
  asm("xaddq %0, %1" : "+r"(number), "+m"(thread->next_sequence) : : "cc");
  return number + 1;
}

// The same for a record that is not a call, also when calls have no more room: a loss is handled by the caller.
RecordHeader* ReserveDescription(ThreadState* thread, uint32_t words, FrameMark* mark);

RecordHeader* ReserveScope(ThreadState* thread, uint32_t words, FrameMark* mark);  // counts what it drops
// For dlhook's own threads: waits for the drain up to a second. `naps`: since it last made progress.
RecordHeader* ReservePatiently(ThreadState* thread, uint32_t words, FrameMark* mark, uint32_t* naps);
// Writes a record that is not a call, and `text` behind it. False: there is no room. `naps`: as above; null: does not wait.
bool WriteDescription(ThreadState* thread, RecordHeader* record, const void* text, uint32_t text_bytes, uint32_t* naps);

__attribute__((cold)) void CommitNoticed(ThreadState* thread, const RecordHeader* record);
inline void CommitRecord(ThreadState* thread, const RecordHeader* record) {
  if (__builtin_expect(thread->ring.refuses_calls, 0)) return CommitNoticed(thread, record);
  thread->ring.Commit(record);
}

// Drops recorded calls that were left without returning, by longjmp or an exception: their frames are not above `frame`,
// and no longer contain their sequence number. (A handler's stack, or a fibre's, may lie above that of the call that it
// interrupted.)
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
