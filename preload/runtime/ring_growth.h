// Room for a thread whose ring is full: chunks of the session's mapping, as long as there are some.
// Thread: the ring's. May make system calls (pages for a chunk that never had any); leaves errno as it is.
#ifndef DLHOOK_PRELOAD_RUNTIME_RING_GROWTH_H_
#define DLHOOK_PRELOAD_RUNTIME_RING_GROWTH_H_

#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

// Moves to a chunk that is empty. False: there is none, or a record is being written. `frame`: as for Reserve.
bool GrowRing(ThreadState* thread, uintptr_t frame);

// Moves back to the slot's own memory, where the drain has made that half empty.
void GoHome(ThreadState* thread, uintptr_t frame);

// Whoever was in GrowRing has left it: what it began is ended.
void EndGrowth(ThreadState* thread);

// Index of a chunk with pages that is nobody else's, for records or for totals; kMaxChunks: there is none.
uint32_t TakeChunk(ThreadState* thread, bool for_totals);

// Moves back however full it is: the slot's thread ends.
void ShrinkRing(ThreadState* thread);

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_RING_GROWTH_H_
