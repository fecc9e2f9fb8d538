// The loaded objects that frames of native stacks lie in: each is told to the trace once, and noticed when it goes.
// Thread: any application thread, on slow paths; takes a spin lock.
#ifndef DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_
#define DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_

#include <cstdint>

#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {

void NoteCodeObject(const CodeObject& object);

// After dlclose, by each thread that captures stacks: where such an object is gone, the nodes of its addresses are
// retired.
void RetireGoneObjects(uint32_t generation);

}  // namespace dlhook::inline unwind

#endif  // DLHOOK_PRELOAD_UNWIND_CODE_OBJECTS_H_
