// Writes the definitions (format/definitions.h).
#pragma once

#include "preload/format/definitions.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {

// Stores `size` bytes for the drain; returns their number, or 0 if there is no session, no room or they are too long
// (counted; names are truncated instead). Not for the steady state: takes a lock and may allocate pages.
// Thread: any application thread.
uint32_t Define(DefinitionKind kind, const void* bytes, size_t size);

// Allocates pages for parts of the session's mapping: a store into a hole of a full file system is a SIGBUS.
// Thread: any, on slow paths; makes system calls, none of which is a cancellation point.

// False if a file of `bytes` bytes exceeds the process's limit: creating it would raise SIGXFSZ.
bool MayMakeFile(uint64_t bytes);

// The mapping's file, open for reading and writing; -1 if the host may no longer open it, or its name belongs to
// another file.
int OpenRingFile(const ProcessState* process);

// Allocates pages for [offset, offset + bytes) of the mapping. False if there is no room.
bool AllocatePages(const ProcessState* process, uint64_t offset, uint64_t bytes);

}  // namespace dlhook::inline runtime
