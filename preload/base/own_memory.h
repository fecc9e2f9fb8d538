// Reads memory of this process that may not exist or not be readable.
// Thread: any. One system call each: never faults, and fails if the process may not make that call.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

#include "preload/base/own_pages.h"
#include "preload/base/process_id.h"

namespace dlhook::inline base {

constexpr uint64_t kPageBytes = 4096;

// The number of bytes of these pieces, `size` in all, that could be copied one after another. Preserves errno.
inline size_t CopyOwnPieces(const iovec* pieces, unsigned long count, void* to, size_t size) {
  ErrnoKeeper keeper;
  iovec local = {to, size};
  ssize_t copied = process_vm_readv(static_cast<pid_t>(ProcessId()), &local, 1, pieces, count, 0);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

// The number of bytes, of `size` at `address`, that could be copied. Preserves errno.
inline size_t CopyOwnMemory(uint64_t address, void* to, size_t size) {
  iovec piece = {reinterpret_cast<void*>(address), size};
  return CopyOwnPieces(&piece, 1, to, size);
}

// The process's own memory as what walks over stacks read (StackWalk): copies, which never fault.
struct OwnMemory {
  static size_t Copy(uint64_t address, void* to, size_t size) { return CopyOwnMemory(address, to, size); }
};

}  // namespace dlhook::inline base
