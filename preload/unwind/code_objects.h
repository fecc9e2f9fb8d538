// The loaded objects that contain frames of native stacks: each is recorded in the trace once, and detected when it is
// unloaded.
// Thread: any application thread, on slow paths; takes a spin lock.
#ifndef DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_
#define DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_

#include <cstdint>

#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {

void NoteCodeObject(const CodeObject& object);

// After dlclose, by each thread that captures stacks: if such an object is gone, the nodes of its addresses are
// retired.
void RetireGoneObjects(uint32_t generation);

}  // namespace dlhook::inline unwind

#endif  // DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_
