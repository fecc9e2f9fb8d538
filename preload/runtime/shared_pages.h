// Allocates pages for parts of the session's mapping: a store into a hole of a full file system is a SIGBUS.
// Thread: any, on slow paths; makes system calls, none of which is a cancellation point.
#pragma once

#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {

// False if a file of `bytes` bytes exceeds the process's limit: creating it would raise SIGXFSZ.
bool MayMakeFile(uint64_t bytes);

// The mapping's file, open for reading and writing; -1 if the host may no longer open it, or its name belongs to
// another file.
int OpenRingFile(const ProcessState* process);

// Allocates pages for [offset, offset + bytes) of the mapping. False if there is no room.
bool AllocatePages(const ProcessState* process, uint64_t offset, uint64_t bytes);

}  // namespace dlhook::inline runtime
