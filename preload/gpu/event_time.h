// Times of GPUs from pairs of CUDA events: beginning, collecting, end. The pairs are recorded by event_calls.h.
#ifndef DLHOOK_PRELOAD_GPU_EVENT_TIME_H_
#define DLHOOK_PRELOAD_GPU_EVENT_TIME_H_

#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// From now on calls are timed. The driver is looked up by the first of them: it may not be loaded yet. False: no
// memory, or a forked child of a process that did it. Thread: any; makes two system calls, takes no lock.
bool StartEvents();

// Writes the activities of pairs that are complete into the ring of `own`, the calling thread's. Thread: dlhook-gpu,
// every few milliseconds; an application thread before it ends a context.
void CollectEvents(ThreadState* own);

// When the process ends: waits for what is under way, at most kLongestEventWaitMs, collects, turns events off.
// Idempotent.
// Thread: one with a ring, before CUDA ends.
void FinishEvents(ThreadState* own);
constexpr int kLongestEventWaitMs = 20;

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_EVENT_TIME_H_
