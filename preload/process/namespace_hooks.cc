// System calls that fail in a process with a second thread (EINVAL): the writer thread is stopped for their duration.
// Thread: any application thread.
#include <sched.h>

#include "preload/link/resolver.h"
#include "preload/process/writer_thread.h"

extern "C" {

__attribute__((visibility("default"))) int unshare(int flags) noexcept {
  constexpr int kNotWithThreads = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  dlhook::WithoutWriter without_writer((flags & kNotWithThreads) != 0);
  return dlhook::RealOf<int(int)>("unshare")(flags);
}

// Into a user, mount or time namespace; if `kind` is 0, only the kernel knows the kind of `descriptor`.
__attribute__((visibility("default"))) int setns(int descriptor, int kind) noexcept {
  dlhook::WithoutWriter without_writer(true);
  return dlhook::RealOf<int(int, int)>("setns")(descriptor, kind);
}

}  // extern "C"
