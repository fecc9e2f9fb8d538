// Calls for which there is no room once rings can't grow any more: kept as totals per op.
//
// A thread then writes no single calls until the drain has taken half of the backlog: each call is written as a
// record into a separate place (staged) and added to the thread's tables when it is committed. Then the tables go into
// the ring as records. Other records (scopes, counters, ends of threads) continue to use the room reserved for them.
// Thread: the ring's. Preserves errno. Makes a system call only to allocate pages.
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

// True if calls are kept as totals from now on. Their details are then not needed.
inline bool IsKeepingTotals(const ThreadState* thread) { return thread->ring.refuses_calls; }
bool KeepTotals(ThreadState* thread, FrameMark* mark);

// A place for a call's record of at most kStagingBytes, starting totals if necessary; null if that is not possible.
RecordHeader* StageCall(ThreadState* thread, FrameMark* mark);
inline bool IsStaged(const ThreadState* thread, const RecordHeader* record) { return record == thread->staging; }

// Adds the staged call; counts it as dropped if the tables have no room for its op.
void AddStagedCall(ThreadState* thread, const RecordHeader* record);

// Writes totals into the ring as far as there is room; single calls resume when none is left. Not inside of a call.
void HandOverTotals(ThreadState* thread, FrameMark* mark);

// After one of these functions was left by longjmp: completes or reverts its change.
void SettleTotals(ThreadState* thread);

// Takes over what the slot's earlier thread left, and releases empty tables.
void AdoptTotals(ThreadState* thread);
void GiveBackTotals(ThreadState* thread);

// Room for a thread whose ring is full: chunks of the session's mapping, while available.
// Thread: the ring's. May make system calls (pages for a chunk that never had any); preserves errno.

// Moves to an empty chunk. False: there is none, or a record is being written. `mark`: as for Reserve.
bool GrowRing(ThreadState* thread, FrameMark* mark);

// Moves back to the slot's own memory if the drain has emptied half of it.
void GoHome(ThreadState* thread, FrameMark* mark);

// After GrowRing was left by longjmp: completes its change.
void EndGrowth(ThreadState* thread);

// Index of a free chunk with pages, for records or for totals; kMaxChunks: there is none.
uint32_t TakeChunk(ThreadState* thread, bool for_totals);

// Moves back however full it is: the slot's thread ends.
void ShrinkRing(ThreadState* thread);

}  // namespace dlhook::inline runtime
