// Work in progress that its own thread finds again: was it left (by longjmp, an exception), or does it go on later (a
// signal handler interrupted it, a fibre was switched away from)? Positions of stacks do not tell: alternate stacks and
// those of fibres lie anywhere. So the work keeps a word in its own stack frame, and remembers the word's place; a
// place that contains something else belongs to another frame now. If nothing has overwritten the word yet, work that
// was left counts as going on, for a while.
// Thread: the one that works. One system call for each question.
#pragma once

#include <sys/uio.h>

#include "preload/base/own_pages.h"
#include "preload/base/process_id.h"

namespace dlhook::inline base {

// False: what was at `place` is gone. True if this process may not look.
inline bool Contains(uintptr_t place, uint64_t word) {
  uint64_t found = 0;
  iovec local = {&found, sizeof found};
  iovec remote = {reinterpret_cast<void*>(place), sizeof found};
  ErrnoKeeper keeper;
  ssize_t copied = process_vm_readv(static_cast<pid_t>(ProcessId()), &local, 1, &remote, 1, 0);
  bool is_unmapped = copied < 0 && errno == EFAULT;
  return copied == sizeof found ? found == word : !is_unmapped;
}

// A variable of the function that works.
struct FrameMark {
  uint64_t word;

  // Its place, by which it is found again.
  uintptr_t Set() {
    auto place = reinterpret_cast<uintptr_t>(this);
    word = WordAt(place);
    return place;
  }
  // Whether the work with the mark at `place`, not 0, still goes on. Asked by the owner of this one.
  bool SeesWorkAt(uintptr_t place) const {
    return place != reinterpret_cast<uintptr_t>(this) && Contains(place, WordAt(place));
  }

 private:
  static uint64_t WordAt(uintptr_t place) { return place ^ 0x5bd1e9955bd1e995; }
};

}  // namespace dlhook::inline base
