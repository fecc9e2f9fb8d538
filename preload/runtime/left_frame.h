// A thread finds its own mark of work in progress: was that work left by longjmp, or is this the handler of a signal
// that interrupted it?
// Thread: the one that set the mark. One system call if the addresses do not decide.
#ifndef DLHOOK_PRELOAD_RUNTIME_LEFT_FRAME_H_
#define DLHOOK_PRELOAD_RUNTIME_LEFT_FRAME_H_

#include <signal.h>

#include <cstdint>

namespace dlhook::inline runtime {

// `worker` and `frame`: addresses in the stack frames of the function that set the mark and of the one that found it. A
// handler runs deeper on the same stack, or on the alternate one.
inline bool WasLeft(uintptr_t worker, uintptr_t frame) {
  stack_t alternate;
  return frame >= worker && sigaltstack(nullptr, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_LEFT_FRAME_H_
