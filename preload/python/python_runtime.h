// The Python of this process, if there is exactly one that can be read: its layout and the few functions that work
// without the GIL. A stack is read by the thread that runs it, so it does not change: see README.md.
// Thread: any. Finding it takes the loader's lock; afterwards plain loads.
#pragma once

#include <atomic>

#include "preload/base/function_table.h"
#include "preload/python/python_frames.h"

namespace dlhook::inline python {

struct PythonRuntime : FunctionTable {
  using FunctionTable::FunctionTable;
  PythonLayout layout = {};
  const void* code_type = Need("PyCode_Type");
  const void* cell_type = Need("PyCell_Type");
  // The calling thread's PyThreadState; null if it has none. A read of thread-local storage.
  void* (*thread_state)() = Need("PyGILState_GetThisThreadState");
  int (*is_finalizing)() = Find("Py_IsFinalizing", "_Py_IsFinalizing");
  void* (*newest_interpreter)() = Need("PyInterpreterState_Head");
  void* (*main_interpreter)() = Need("PyInterpreterState_Main");
};

enum class PythonState : uint32_t { kUnknown = 0, kSearching = 1, kOn = 2, kOff = 3, kAbsent = 4 };
extern std::atomic<PythonState> g_python_state;
extern PythonRuntime g_python;

// Null if there is no Python (yet), or it can't be read (the capability gives the reason).
inline const PythonRuntime* CurrentPython() {
  bool on = __builtin_expect(g_python_state.load(std::memory_order_acquire) == PythonState::kOn, 1);
  return on ? &g_python : nullptr;
}

// Looks for Python unless it was found: programs that embed one load it late. Saves errno.
void FindPython();

// The same for the handler of samples, where the loader's lock may not be taken: is the code at `address` that of a Python
// which has begun?
void FindPythonAt(uint64_t address);

// The walks of python_frames.h over the calling thread's own frames.
inline const void* PythonFrameOf(const PythonRuntime& python, const void* thread_state) {
  const OwnFrames own = {python.code_type};
  return PythonFrameOf(python.layout, own, thread_state);
}
template <typename Visit>
inline void VisitFrames(const PythonRuntime& python, const void* frame, Visit visit) {
  const OwnFrames own = {python.code_type};
  VisitFrames(python.layout, own, frame, visit);
}
inline bool IsEntryFrame(const PythonRuntime& python, const void* frame) {
  const OwnFrames own = {python.code_type};
  return IsEntryFrame(python.layout, own, frame);
}

// The first argument of a running function; null if it was deleted.
inline const void* FirstArgument(const PythonRuntime& python, const void* frame) {
  uintptr_t reference = ReadAt<uintptr_t>(frame, python.layout.frame_locals);
  uintptr_t tag = reference & python.layout.tag_bits;
  if (tag != 0 && tag == python.layout.tag_bits) return nullptr;  // an integer
  auto argument = reinterpret_cast<const void*>(reference - tag);
  if (argument != nullptr && ReadAt<const void*>(argument, kPyTypeOffset) == python.cell_type) {
    return ReadAt<const void*>(argument, kPyCellContent);  // inner functions use it
  }
  return argument;
}

// How far outwards a stack is searched for modules, possibly beyond the recorded frames.
constexpr uint32_t kMaxVisitedFrames = 4096;

// The text of a Python string as UTF-8, truncated if it does not fit. Returns its size in bytes.
size_t PythonText(const PythonRuntime& python, const void* string, char* text, size_t capacity);

// In interrupted_frames.cc. A thread that a signal interrupted may have been anywhere: a frame that has just become the current one
// may be incomplete, one that is being left may have lost its code.
// Thread: the interrupted one, in the signal's handler. Two to six system calls, which never fault.
//
// The innermost frame, if all that a walk over kMaxPythonFrames frames reads of them and of their code is there: as long as
// the thread stands still, nobody takes it away. Else null. Arguments of the innermost frame are not included.
const void* ReadableFrameOf(const PythonRuntime& python, const void* thread_state);

}  // namespace dlhook::inline python
