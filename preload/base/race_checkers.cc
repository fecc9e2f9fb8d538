// Requests to Valgrind (as in valgrind.h; the numbers are part of its interface), and the shim's mmap and mremap.
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/base/own_pages.h"

extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));  // the shim's own

namespace dlhook::inline base {
namespace {

constexpr uint64_t kHelgrindUntracked = 0x48470127;  // _VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED
constexpr uint64_t kDrdIgnored = 0x44520002;         // VG_USERREQ__DRD_START_SUPPRESSION

// Does nothing except under Valgrind.
void Request(uint64_t request, const void* start, uint64_t bytes) {
  const volatile uint64_t arguments[6] = {request, reinterpret_cast<uint64_t>(start), bytes, 0, 0, 0};
  uint64_t answer = 0;
  asm volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\trolq $61, %%rdi; rolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
               : "+d"(answer)
               : "a"(&arguments[0])
               : "cc", "memory");
}

void Hide(const void* start, uint64_t bytes) {
  Request(kHelgrindUntracked, start, bytes);
  Request(kDrdIgnored, start, bytes);
}

}  // namespace

void HideVariablesFromRaceCheckers() {
  auto base = reinterpret_cast<const char*>(&__ehdr_start);
  auto segment = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  for (int i = 0; i < __ehdr_start.e_phnum; ++i, ++segment) {
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) != 0) Hide(base + segment->p_vaddr, segment->p_memsz);
  }
}

}  // namespace dlhook::inline base

// Replaces the C library's in the whole shim.
extern "C" {

__attribute__((visibility("hidden"))) void* mmap(void* wanted, size_t bytes, int protection, int flags, int fd,
                                                 off_t offset) noexcept {
  void* memory = reinterpret_cast<void*>(syscall(SYS_mmap, wanted, bytes, protection, flags, fd, offset));
  if (memory != MAP_FAILED) dlhook::Hide(memory, bytes);
  return memory;
}

// Without the address argument of MREMAP_FIXED.
__attribute__((visibility("hidden"))) void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  void* memory = reinterpret_cast<void*>(syscall(SYS_mremap, old, old_bytes, bytes, flags));
  if (memory != MAP_FAILED) dlhook::Hide(memory, bytes);
  return memory;
}

}  // extern "C"
