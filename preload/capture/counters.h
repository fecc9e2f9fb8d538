// Readings of counters by the threads that they are about (DLHOOK_COUNTERS).
// Thread: any application thread, for itself only. Readings are system calls, or rdpmc; opening counters on a thread's
// first recorded call makes more of them.
#ifndef DLHOOK_PRELOAD_CAPTURE_COUNTERS_H_
#define DLHOOK_PRELOAD_CAPTURE_COUNTERS_H_

#include "preload/core/thread_state.h"

namespace dlhook {

// When a thread begins to record and when it ends.
void OpenThreadCounters(ThreadState* thread);
void CloseThreadCounters(ThreadState* thread);

// Writes a reading of the calling thread's counters into its ring.
void ReadCounters(ThreadState* thread);

// Where a scope of the thread begins or ends that is not inside a framework's operator: a reading, unless the last one
// is too near.
void ReadCountersAtScope(ThreadState* thread, ScopeKind kind);

// When the process ends: of the calling thread, if it records, and of the process as a whole.
void CloseProcessCounters();

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CAPTURE_COUNTERS_H_
