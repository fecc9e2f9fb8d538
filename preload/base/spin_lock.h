// A lock for slow paths. Zero is unlocked.
// Thread: any. A forked child may find it held by a thread that it does not have: the lock records its holder's
// process, and the child takes it over; guarded data is written so that a reader copes (keys are published last). A
// signal handler that interrupts the holder on its own thread would wait forever: it proceeds at once, without the
// lock. A holder that never returns (left by longjmp) loses the lock after some seconds.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "preload/base/process_id.h"

namespace dlhook::inline base {

// Sleeps until a word changes. If a real-time thread yielded or spun instead, a lower-priority thread that it waits for
// would never run.
// Thread: any.

// Returns at once if *word is not `expected`; else when woken, after `most`, or spuriously.
inline void FutexWait(const void* word, uint32_t expected, timespec most) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &most, nullptr, 0);
}

inline void FutexWake(const void* word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

struct SpinLock {
  std::atomic<uint64_t> holder{0};  // process id, and in the lower half an id of the thread: a futex
  std::atomic<uint32_t> sleepers{0};
};

// How many the calling thread holds or waits for. A handler that takes one only if this is 0 never makes another thread
// wait for one that waits for it.
inline __thread uint32_t t_spin_locks = 0;

class SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock* lock) : lock_(lock), me_(Me()), held_(TryLock() || Wait()) {}
  ~SpinLockHolder() {
    uint64_t expected = me_;
    if (held_ && lock_->holder.compare_exchange_strong(expected, 0) && lock_->sleepers.load() != 0) FutexWake(lock_, 1);
    --t_spin_locks;
  }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  static uint64_t Me() {
    ++t_spin_locks;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    uint64_t thread;
    asm("movq %%fs:0, %0" : "=r"(thread));
    return uint64_t{ProcessId()} << 32 | static_cast<uint32_t>(thread >> 4);
  }
  bool TryLock() {
    uint64_t holder = 0;
    if (lock_->holder.compare_exchange_strong(holder, me_, std::memory_order_acquire)) return true;
    return holder >> 32 != me_ >> 32 && lock_->holder.compare_exchange_strong(holder, me_, std::memory_order_acquire);
  }
  // Not limited by a number of tries: on a busy machine the holder may not run for longer than any number takes. False:
  // continues without the lock.
  bool Wait() {
    constexpr time_t kLongestSeconds = 5;
    constexpr timespec kNap = {0, 100 * 1000 * 1000};
    if (lock_->holder.load(std::memory_order_relaxed) == me_) return false;
    timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    lock_->sleepers.fetch_add(1);
    bool taken = false;
    do {
      auto holder = static_cast<uint32_t>(lock_->holder.load());
      if (holder != 0) FutexWait(lock_, holder, kNap);
      taken = TryLock();
      clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!taken && now.tv_sec - start.tv_sec <= kLongestSeconds);
    lock_->sleepers.fetch_sub(1);
    if (!taken) lock_->holder.store(me_, std::memory_order_relaxed);
    return true;
  }

  SpinLock* lock_;
  uint64_t me_;
  bool held_;
};

}  // namespace dlhook::inline base
