// Sleeps until a word changes. If a real-time thread yielded or spun instead, a lower-priority thread that it waits for
// would never run.
// Thread: any.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdint>

namespace dlhook::inline base {

// Returns at once if *word is not `expected`; else when woken, after `most`, or spuriously.
inline void FutexWait(const void* word, uint32_t expected, timespec most) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &most, nullptr, 0);
}

inline void FutexWake(const void* word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace dlhook::inline base
