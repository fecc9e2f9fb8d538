// The shim's own memory, in pages separate from the host's heap: zeroed, allocated when touched, and never locked. A
// host that locks all memory (mlockall(MCL_FUTURE)) means its own memory; the shim's is mostly unused reservation.
// Thread: any. System calls; preserves errno.
#pragma once

#include <errno.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>

namespace dlhook::inline base {

// errno as it was, at the end of the block: hooks and handlers run between a call of the host's and its look at errno.
struct ErrnoKeeper {
  int saved = errno;
  ~ErrnoKeeper() { errno = saved; }
};

// Valgrind's race checkers know the C library's locks but not atomics: they are instructed to ignore the shim's variables.
// Mapped pages are covered by its own mmap and mremap (race_checkers.cc).
void HideVariablesFromRaceCheckers();

// Null if out of memory. `fd`: a file to map shared from its beginning. Only the first page is mapped at first, and
// extended once it is known not to be locked: a large mapping would get all its pages at once, or be refused by
// RLIMIT_MEMLOCK.
inline void* MapOwnPages(size_t bytes, int fd = -1) {
  constexpr size_t kPage = 4096;
  ErrnoKeeper keeper;
  int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  bool is_locked = madvise(memory, kPage, MADV_DONTNEED) != 0 && errno == EINVAL;
  if (is_locked) munlock(memory, kPage);
  void* grown = bytes <= kPage ? memory : mremap(memory, kPage, bytes, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) {
    munmap(memory, kPage);
    return nullptr;
  }
  return grown;
}

// A singleton per process: created zeroed on first request, and again in a forked child, which finds it wiped. Null if
// out of memory, or if the kernel can't wipe it (before 4.14).
template <typename T>
T* OneForEachProcess(std::atomic<T*>* one) {
  T* known = one->load(std::memory_order_acquire);
  if (__builtin_expect(known != nullptr, 1)) return known;
  void* memory = MapOwnPages(sizeof(T));
  if (memory == nullptr) return nullptr;
  madvise(memory, sizeof(T), MADV_NOHUGEPAGE);  // much of it is never touched
  bool wiped = madvise(memory, sizeof(T), MADV_WIPEONFORK) == 0;
  if (wiped && one->compare_exchange_strong(known, static_cast<T*>(memory), std::memory_order_acq_rel)) {
    return static_cast<T*>(memory);
  }
  munmap(memory, sizeof(T));
  return known;
}

// Slow paths that need more stack than a small thread has.
// Thread: any, while undisturbed (runtime/undisturbed.h): nothing may unwind through it, and meanwhile no signal
// handler may run and no cancellation take effect.

// Runs function(argument) on the stack that ends at `top`.
inline void CallOnStack(void* top, void (*function)(void*), void* argument) {
  asm volatile("movq %%rsp, %%rbx\n\tmovq %[top], %%rsp\n\tcall *%[function]\n\tmovq %%rbx, %%rsp"
               : "+D"(argument), [top] "+r"(top), [function] "+r"(function)
               :
               : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2",
                 "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                 "xmm15");
}

// The same on a temporary stack. False if out of memory: nothing was called.
inline bool CallOnOwnStack(void (*function)(void*), void* argument) {
  constexpr size_t kBytes = 256 << 10;
  void* stack = MapOwnPages(kBytes);
  if (stack == nullptr) return false;
  CallOnStack(static_cast<char*>(stack) + kBytes, function, argument);
  munmap(stack, kBytes);
  return true;
}

}  // namespace dlhook::inline base
