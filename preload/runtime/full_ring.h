// Calls that find no room, once rings can't grow any more (DLHOOK_ON_FULL): dropped and counted, kept as totals per op, or waited
// for.
//
// With totals a thread writes no single calls until the drain has taken half of what was waiting: each call is made as a record in a
// place of its own (staged) and added to the thread's tables when it is committed. Then the tables go into the ring as records.
// What is told of calls (scopes, counters, ends of threads) goes on meanwhile in the room that calls leave to it.
// Thread: the ring's. Leaves errno as it is. A system call only for waiting and for pages.
#ifndef DLHOOK_PRELOAD_RUNTIME_FULL_RING_H_
#define DLHOOK_PRELOAD_RUNTIME_FULL_RING_H_

#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

// True where calls are kept as totals from now on. Nothing of what they carry beside op and time is then wanted.
inline bool IsKeepingTotals(const ThreadState* thread) { return thread->ring.refuses_calls; }
bool KeepTotals(ThreadState* thread, uintptr_t frame);

// A place for a call's record of at most kStagingBytes, with totals kept from now on; null where they can't be.
RecordHeader* StageCall(ThreadState* thread, uintptr_t frame);
inline bool IsStaged(const ThreadState* thread, const RecordHeader* record) { return record == thread->staging; }

// Adds what was staged; counts it as dropped where the tables have no room for its op.
void AddStagedCall(ThreadState* thread, const RecordHeader* record);

// Writes totals into the ring as far as there is room; single calls follow when nothing is left. Not inside of a call.
void HandOverTotals(ThreadState* thread, uintptr_t frame);

// Whoever was in one of these functions has left it: what it was at is ended, or taken back.
void SettleTotals(ThreadState* thread);

// Takes over what the slot's earlier thread left, and gives back tables that are empty.
void AdoptTotals(ThreadState* thread);
void GiveBackTotals(ThreadState* thread);

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_FULL_RING_H_
