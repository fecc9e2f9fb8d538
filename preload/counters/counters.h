// Readings of counters by the threads that they are about (DLHOOK_COUNTERS).
// Thread: any application thread, for itself only. Readings are system calls, or rdpmc; opening counters on a thread's
// first recorded call makes more of them.
#ifndef DLHOOK_PRELOAD_COUNTERS_COUNTERS_H_
#define DLHOOK_PRELOAD_COUNTERS_COUNTERS_H_

#include "preload/runtime/thread_state.h"

namespace dlhook::inline counters {

// Writes a reading of the calling thread's counters into its ring.
void ReadCounters(ThreadState* thread);

// When the process ends: of the calling thread, if it records, and of the process as a whole.
void CloseProcessCounters();

}  // namespace dlhook::inline counters

#endif  // DLHOOK_PRELOAD_COUNTERS_COUNTERS_H_
