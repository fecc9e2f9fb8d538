// Uses process_vm_readv, which neither stops nor changes the other process.
#include "analyzer/io/memory_reader.h"

#include <sys/uio.h>

namespace dlhook::analyzer::inline io {

bool ProcessMemory::Read(uint64_t address, void* to, size_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    iovec local = {out, bytes};
    iovec remote = {reinterpret_cast<void*>(address), bytes};
    const ssize_t count = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (count <= 0) return false;
    out += count;
    address += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace dlhook::analyzer::io
