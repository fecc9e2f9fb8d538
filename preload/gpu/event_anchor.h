// Relates a GPU's clock to the host's: an event on our own, otherwise idle stream is reached between two reads of
// CLOCK_REALTIME. Of several tries the one with the shortest interval is used.
// Thread: the one that holds EventState.collecting; OpenContext: the application thread that first used the context.
#pragma once

#include "preload/gpu/event_pool.h"

namespace dlhook::inline gpu {

// Creates our stream and the first anchor for a context with `context` set. The program's current context is unchanged.
// False: not possible.
bool OpenContext(const EventDriver& driver, EventContext* context);

// Takes a new anchor if the current one is old: clocks drift, and the driver's times are floats. The context must be
// current.
void RefreshAnchor(EventState* state, EventContext* context);

// Destroys all events and the stream; pairs must be free or forgotten. The context must be current.
void CloseContext(const EventDriver& driver, EventContext* context);

}  // namespace dlhook::inline gpu
