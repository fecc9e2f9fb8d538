// The native stack of the calling thread, for calls that are to keep one (DLHOOK_STACKS).
// Thread: any application thread, for itself only.
#ifndef DLHOOK_PRELOAD_UNWIND_NATIVE_STACK_H_
#define DLHOOK_PRELOAD_UNWIND_NATIVE_STACK_H_

#include <cstdint>

#include "preload/runtime/thread_state.h"

namespace dlhook {

// The StackNode of the innermost frame outside of the shim; 0: none (no room: counted; a signal handler that
// interrupted this; a child that was forked since the call began). Saves errno. No system call and no lock where the
// stack's functions and frames were met before.
uint32_t CaptureNativeStack(ThreadState* thread);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_UNWIND_NATIVE_STACK_H_
