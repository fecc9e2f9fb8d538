// In a program with more kernels than the tables have room for, later names are read and defined again each time.
#include <fcntl.h>

#include "preload/base/own_memory.h"
#include "preload/gpu/gpu_state.h"

namespace dlhook::inline gpu {
namespace {

constexpr size_t kMostNameBytes = 4096;

// Containers may forbid the system call; then a file of /proc works.
size_t CopyByFile(uint64_t address, char* to, size_t size) {
  ErrnoKeeper keeper;
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  ssize_t copied = memory < 0 ? -1 : pread(memory, to, size, static_cast<off_t>(address));
  if (memory >= 0) close(memory);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

size_t CopyName(uint64_t address, char* to, size_t size) {
  size_t copied = CopyOwnMemory(address, to, size);
  return copied != 0 ? copied : CopyByFile(address, to, size);
}

}  // namespace

uint32_t DefineKernelName(KernelNames* names, const char* name, uint32_t generation) {
  if (name == nullptr) return 0;
  uint64_t key = HashBytes(reinterpret_cast<const char*>(&name), sizeof name);
  auto entry = names->by_pointer.Find(key);
  if (entry != nullptr && entry->used == generation + 1) return entry->definition;
  // Its module may be gone: never read directly.
  char copy[kMostNameBytes];
  size_t size = strnlen(copy, CopyName(reinterpret_cast<uint64_t>(name), copy, sizeof copy));
  if (size == 0) ++names->unread;
  uint32_t definition = size == 0 ? 0 : names->by_content.Define(DefinitionKind::kKernel, copy, size);
  if (entry != nullptr) names->by_pointer.Fill(entry, key, definition, generation + 1);
  return definition;
}

const char* WhyNamesAreUnread() {
  char probe = 1, copy = 0;
  bool can_read = CopyName(reinterpret_cast<uint64_t>(&probe), &copy, 1) == 1;
  return can_read ? "their modules were unloaded before" : "process_vm_readv and /proc/self/mem are denied here";
}

}  // namespace dlhook::inline gpu
