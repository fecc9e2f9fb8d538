// Counter readings made by the threads themselves (DLHOOK_COUNTERS).
// Thread: any application thread, for itself only. A reading is a system call, or rdpmc; opening counters at a thread's
// first recorded call makes more system calls.
#pragma once

#include "preload/runtime/thread_state.h"

namespace dlhook::inline counters {

// Writes a reading of the calling thread's counters into its ring.
void ReadCounters(ThreadState* thread);

// At the end of the process: reads the calling thread, if it records, and the process as a whole.
void CloseProcessCounters();

}  // namespace dlhook::inline counters
