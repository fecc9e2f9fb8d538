// Collects complete event pairs, and releases contexts. See event_time.h for the rest.
#pragma once

#include "preload/gpu/event_pool.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// The application is about to end a context (null: any): collects what is complete and destroys all events, which would
// vanish with it. A context that survives is opened again by its next call. `thread`: the calling one's, or null.
// Thread: any application thread, before the real function.
void EndEventContexts(EventState* state, ThreadState* thread, const void* context);

}  // namespace dlhook::inline gpu
