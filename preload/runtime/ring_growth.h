// Room for a thread whose ring is full: chunks of the session's mapping, while available.
// Thread: the ring's. May make system calls (pages for a chunk that never had any); preserves errno.
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

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
