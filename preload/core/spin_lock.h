// A lock for slow paths. Zero is unlocked.
// Thread: any. A forked child may find it held by a thread that it does not have: it gives up waiting after a while and
// goes on; what the lock guards is written so that a reader copes (keys are published last).
#ifndef DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_
#define DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace dlhook {

struct SpinLock {
  std::atomic<uint32_t> held{0};
};

class SpinLockHolder {
 public:
  explicit SpinLockHolder(SpinLock* lock) : lock_(lock) {
    for (int i = 0; i < 10000 && lock_->held.exchange(1, std::memory_order_acquire) != 0; ++i) sched_yield();
  }
  ~SpinLockHolder() { lock_->held.store(0, std::memory_order_release); }
  SpinLockHolder(const SpinLockHolder&) = delete;
  SpinLockHolder& operator=(const SpinLockHolder&) = delete;

 private:
  SpinLock* lock_;
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_SPIN_LOCK_H_
