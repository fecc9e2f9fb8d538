// The shim's own threads.
// Thread: any that is undisturbed (runtime/undisturbed.h): the new one inherits its blocked signals.
#pragma once

#include "preload/base/libc_functions.h"
#include "preload/base/own_pages.h"

namespace dlhook::inline base {

// The C library counts its threads: the one that ends last calls exit(). The shim's own are taken out of that count, so that
// this is the program's last one; they must not be the last themselves. Declared first in a thread's main function.
class UncountedThread {
 public:
  UncountedThread() = default;
  UncountedThread(const UncountedThread&) = delete;
  UncountedThread& operator=(const UncountedThread&) = delete;
  ~UncountedThread();  // counted again: the C library takes it out

  static void Start();  // by the thread that has started it
};

// Starts a thread on `stack_bytes` of own pages, whatever the host's stack limit; if its thread-local variables need
// more, the C library allocates the stack. `*stack`, initially null, keeps the pages for the next thread of its kind,
// which starts after this one has ended (or in a forked child, which does not have it). `main` has an UncountedThread.
inline bool StartOwnThread(void** stack, size_t stack_bytes, void* (*main)(void*), void* argument, pthread_t* thread) {
  constexpr size_t kGuardBytes = 4096;
  if (*stack == nullptr) {
    *stack = MapOwnPages(stack_bytes);
    if (*stack != nullptr) mprotect(*stack, kGuardBytes, PROT_NONE);
  }
  if (*stack != nullptr) {
    pthread_attr_t own;
    pthread_attr_init(&own);
    pthread_attr_setstack(&own, *stack, stack_bytes);
    bool created = dlhook_libc_pthread_create(thread, &own, main, argument) == 0;
    pthread_attr_destroy(&own);
    if (created) return UncountedThread::Start(), true;
  }
  if (dlhook_libc_pthread_create(thread, nullptr, main, argument) != 0) return false;
  UncountedThread::Start();
  return true;
}

}  // namespace dlhook::inline base
