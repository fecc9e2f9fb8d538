// The memory that a walk over a stack may read: the thread's own stack directly, any other (coroutines, signals'
// alternate stacks) through copies made by the kernel.
// Thread: the one whose stack it is.
#pragma once

#include <cstdint>

#include "preload/base/own_memory.h"

namespace dlhook::inline unwind {

// The part of the thread's own stack that is known to be readable: from the lowest checked address to its end.
struct StackBounds {
  uint64_t low;
  uint64_t high;  // 0: nothing is known
  // Checked stack pointers that are not in the thread's own stack.
  uint64_t foreign_low;
  uint64_t foreign_high;

  bool Holds(uint64_t stack_pointer) const { return stack_pointer >= low && stack_pointer < high; }
};

// `stack_pointer` is in the thread's own stack. Determines the stack's end: above a thread's stack glibc keeps the
// thread's control block, above that of the program's first thread are the program's arguments. One system call per 64
// pages, the first time at this depth. False: another stack, or not known.
bool ExtendBounds(uint64_t stack_pointer, StackBounds* bounds);

// Words of the thread's own stack.
class OwnStack {
 public:
  OwnStack(uint64_t low, uint64_t high) : low_(low), high_(high) {}
  bool Read(uint64_t address, uint64_t* value) const {
    if (__builtin_expect(address - low_ >= high_ - low_ || (address & 7) != 0, 0)) return false;
    *value = *reinterpret_cast<const uint64_t*>(address);
    return true;
  }

 private:
  uint64_t low_;
  uint64_t high_;  // a multiple of 8
};

// The last copied part of a stack.
struct StackWindow {
  static constexpr uint64_t kBytes = 8192;
  uint64_t start;
  uint64_t bytes;
  uint64_t words[kBytes / 8];
};

// Words of any memory, by copies: Memory::Copy(address, to, size) returns how many bytes from there on can be read. Of this
// process (base/own_memory.h), of another one, or a test's.
template <typename Memory>
class CopiedStack {
 public:
  CopiedStack(const Memory& memory, StackWindow* window) : memory_(memory), window_(window) { window->bytes = 0; }
  bool Read(uint64_t address, uint64_t* value) {
    if ((address & 7) != 0) return false;
    if (address - window_->start >= window_->bytes && !Copy(address)) return false;
    *value = window_->words[(address - window_->start) / 8];
    return true;
  }

 private:
  static constexpr uint32_t kMaxCopies = 256;

  bool Copy(uint64_t address) {
    if (++copies_ > kMaxCopies) return false;
    window_->start = address & ~(kPageBytes - 1);
    window_->bytes = memory_.Copy(window_->start, window_->words, sizeof window_->words) & ~uint64_t{7};
    return address - window_->start < window_->bytes;
  }

  const Memory& memory_;
  StackWindow* window_;
  uint32_t copies_ = 0;
};

}  // namespace dlhook::inline unwind
