// Where a GPU's clock stands on the host's: an event on a stream of our own, which has nothing else to do, is reached
// between two looks at CLOCK_REALTIME. Of several tries the one with the shortest time in between is kept.
// Thread: whoever holds EventState.collecting; OpenContext: the application thread that met the context first.
#ifndef DLHOOK_PRELOAD_GPU_EVENT_ANCHOR_H_
#define DLHOOK_PRELOAD_GPU_EVENT_ANCHOR_H_

#include "preload/gpu/event_pool.h"

namespace dlhook::inline gpu {

// A stream of our own and the first anchor, for a context with `context` set. The program's current context stays.
// False: not possible.
bool OpenContext(const EventDriver& driver, EventContext* context);

// A new anchor where the current one is old: clocks drift apart, and the times that the driver gives are floats. The
// context is current.
void RefreshAnchor(EventState* state, EventContext* context);

// Gives back all events and the stream; pairs must be free or forgotten. The context is current.
void CloseContext(const EventDriver& driver, EventContext* context);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_EVENT_ANCHOR_H_
