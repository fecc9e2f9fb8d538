// Writes the definitions (format/definitions.h).
#pragma once

#include "preload/format/definitions.h"

namespace dlhook::inline runtime {

// Stores `size` bytes for the drain; returns their number, or 0 if there is no session, no room or they are too long
// (counted; names are truncated instead). Not for the steady state: takes a lock and may allocate pages.
// Thread: any application thread.
uint32_t Define(DefinitionKind kind, const void* bytes, size_t size);

}  // namespace dlhook::inline runtime
