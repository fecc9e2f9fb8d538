// Real pages for parts of the session's mapping: a store into a hole of a full file system is a SIGBUS.
// Thread: any, on slow paths; makes system calls, none of which acts on a cancellation.
#ifndef DLHOOK_PRELOAD_RUNTIME_SHARED_PAGES_H_
#define DLHOOK_PRELOAD_RUNTIME_SHARED_PAGES_H_

#include <cstdint>

#include "preload/runtime/process_state.h"

namespace dlhook::inline runtime {

// False where a file of `bytes` bytes is beyond the process's limit: making it would be a SIGXFSZ.
bool MayMakeFile(uint64_t bytes);

// The mapping's file, read and write; -1 where the host may not open it any more, or another one lies under its name.
int OpenRingFile(const ProcessState* process);

// Pages for [offset, offset + bytes) of the mapping, so that stores find them. False where there is no room.
bool AllocatePages(const ProcessState* process, uint64_t offset, uint64_t bytes);

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_SHARED_PAGES_H_
