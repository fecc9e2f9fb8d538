// The process's id without a system call.
// Thread: any.
#pragma once

#include <cstdint>

namespace dlhook::inline base {

// Like getpid, but cached in memory that a forked child finds wiped. Never 0.
uint32_t ProcessId();

}  // namespace dlhook::inline base
