// Slow paths that need more stack than a small thread has.
// Thread: any, while undisturbed (runtime/undisturbed.h): nothing may unwind through it, and meanwhile no signal
// handler may run and no cancellation take effect.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "preload/base/own_pages.h"

namespace dlhook::inline base {

// Runs function(argument) on the stack that ends at `top`.
inline void CallOnStack(void* top, void (*function)(void*), void* argument) {
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "call *%[function]\n\t"
      "movq %%rbx, %%rsp"
      : "+D"(argument), [top] "+r"(top), [function] "+r"(function)
      :
      : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
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
