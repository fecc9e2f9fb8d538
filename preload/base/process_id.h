// The process's id without a system call.
// Thread: any.
#ifndef DLHOOK_PRELOAD_BASE_PROCESS_ID_H_
#define DLHOOK_PRELOAD_BASE_PROCESS_ID_H_

#include <cstdint>

namespace dlhook::inline base {

// Like getpid, but cached in memory that a forked child finds wiped. Never 0.
uint32_t ProcessId();

}  // namespace dlhook::inline base

#endif  // DLHOOK_PRELOAD_BASE_PROCESS_ID_H_
