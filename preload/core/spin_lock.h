// A lock for slow paths. Zero is unlocked.
// Thread: any. A forked child may find it held by a thread that it does not have: the lock knows its holder's process, and the
// child takes it over; what the lock guards is written so that a reader copes (keys are published last). A signal handler that
// interrupts the holder on its own thread would wait for ever: it gives up after some seconds and goes on.
#ifndef DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_
#define DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "preload/core/process_id.h"

namespace dlhook {

struct SpinLock {
  std::atomic<uint32_t> holder{0};  // process id
};

class SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock* lock) : lock_(lock), process_(ProcessId()), held_(TryLock() || Wait()) {}
  ~SpinLockHolder() {
    if (held_) lock_->holder.store(0, std::memory_order_release);  // not what the interrupted holder still has
  }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  bool TryLock() {
    uint32_t holder = 0;
    if (lock_->holder.compare_exchange_strong(holder, process_, std::memory_order_acquire)) return true;
    return holder != process_ && lock_->holder.compare_exchange_strong(holder, process_, std::memory_order_acquire);
  }
  // Without a count of tries: on a busy machine the holder may not run for longer than any number of yields takes.
  // False: gave up.
  bool Wait() {
    constexpr time_t kLongestSeconds = 5;
    timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
      for (int i = 0; i < 100; ++i) {
        sched_yield();
        if (TryLock()) return true;
      }
      clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec <= kLongestSeconds);
    return false;
  }

  SpinLock* lock_;
  uint32_t process_;
  bool held_;
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_
