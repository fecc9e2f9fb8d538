// The Python stack of the calling thread: files, functions, lines, and the modules (torch.nn.Module, keras.Layer) whose
// calls its frames are.
//
// A stack that was met before costs a walk over its frames: no lock, no allocation, no system call, no reference
// count, no GIL.
// Only an unseen one is described (core/definitions.h), under a lock.
// Thread: any application thread, for itself only. README.md says why that is safe.
#ifndef DLHOOK_PRELOAD_CAPTURE_PYTHON_STACK_H_
#define DLHOOK_PRELOAD_CAPTURE_PYTHON_STACK_H_

#include <atomic>
#include <cstdint>

#include "preload/core/scope.h"
#include "preload/core/thread_state.h"

namespace dlhook {

constexpr uint32_t kMaxPythonFrames = 64;

// The definition (kPythonStack) of the calling thread's stack; 0: no Python, or none of its frames on this thread.
uint32_t CapturePythonStack(ThreadState* thread);

// 1: recorded calls carry stacks (DLHOOK_PYTHON=on, and there is a Python).
extern std::atomic<uint32_t> g_python_for_calls;

// Looks for Python again where none was found; for slow paths (a thread attaches, a new caller is bound).
void RefreshPython();

// Writes a PythonStackRecord if the stack is not that of the last call recorded. False: the ring had no room, and the
// call would be taken for one of another place.
bool RecordPythonStack(ThreadState* thread);

// What a recorded call does before anything else, where no other call is open around it.
inline bool NotePythonOfCall(ThreadState* thread) {
  if (__builtin_expect(g_python_for_calls.load(std::memory_order_relaxed) == 0, 1)) return true;
  return !MayHavePythonFrames(thread) || RecordPythonStack(thread);
}

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CAPTURE_PYTHON_STACK_H_
