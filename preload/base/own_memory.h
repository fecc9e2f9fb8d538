// Memory of this process that may not be there, or not be readable.
// Thread: any. A system call each: never faults, and fails where the process may not make that call.
#ifndef DLHOOK_PRELOAD_BASE_OWN_MEMORY_H_
#define DLHOOK_PRELOAD_BASE_OWN_MEMORY_H_

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "preload/base/process_id.h"

namespace dlhook::inline base {

constexpr uint64_t kPageBytes = 4096;

// How many of `size` bytes at `address` could be copied. Saves errno.
inline size_t CopyOwnMemory(uint64_t address, void* to, size_t size) {
  int saved_errno = errno;
  iovec local = {to, size};
  iovec remote = {reinterpret_cast<void*>(address), size};
  ssize_t copied = process_vm_readv(static_cast<pid_t>(ProcessId()), &local, 1, &remote, 1, 0);
  errno = saved_errno;
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

}  // namespace dlhook::inline base

#endif  // DLHOOK_PRELOAD_BASE_OWN_MEMORY_H_
