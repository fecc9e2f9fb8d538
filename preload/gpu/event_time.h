// GPU times from pairs of CUDA events: start, collecting, end. event_calls.h records the pairs.
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Times calls from now on. The first of them looks up the driver, which may not be loaded yet. False: out of memory, or
// a forked child of a process that did it.
// Thread: any; makes two system calls, takes no lock.
bool StartEvents();

// Writes the activities of complete pairs into the ring of `own`, the calling thread's.
// Thread: dlhook-gpu, every few milliseconds; an application thread before it ends a context.
void CollectEvents(ThreadState* own);

// At the end of the process: waits for pending pairs, at most kLongestEventWaitMs, collects, turns events off.
// Idempotent.
// Thread: one with a ring, before CUDA ends.
void FinishEvents(ThreadState* own);
constexpr int kLongestEventWaitMs = 20;

}  // namespace dlhook::inline gpu
