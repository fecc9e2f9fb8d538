// The Python of this process, if there is exactly one that can be read: its layout and the few functions that work
// without the GIL. A stack is read by the thread that runs it, so it does not change: see README.md.
// Thread: any. Finding it takes the loader's lock; afterwards plain loads.
#ifndef DLHOOK_PRELOAD_PYTHON_PYTHON_RUNTIME_H_
#define DLHOOK_PRELOAD_PYTHON_PYTHON_RUNTIME_H_

#include <atomic>
#include <cstdint>

#include "preload/python/python_layout.h"

namespace dlhook::inline python {

// Where its symbols are found: the loader's scope, or (where it may not be asked) one object's own table.
struct PythonSymbols {
  void* (*find)(void* scope, const char* name);
  void* scope;

  void* operator()(const char* name) const { return find(scope, name); }
};

struct PythonRuntime {
  PythonLayout layout;
  const void* code_type;
  const void* cell_type;
  // The calling thread's PyThreadState; null if it has none. A read of thread-local storage.
  void* (*thread_state)();
  int (*is_finalizing)();
  void* (*newest_interpreter)();
  void* (*main_interpreter)();
  PythonSymbols symbols;
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

template <typename Pointer>
bool TakePythonSymbol(const char* name, Pointer* pointer) {
  *pointer = reinterpret_cast<Pointer>(g_python.symbols(name));
  return *pointer != nullptr;
}

// The innermost frame of a thread state, or null.
inline const void* PythonFrameOf(const PythonRuntime& python, const void* thread_state) {
  const PythonLayout& layout = python.layout;
  const void* holder = ReadAt<const void*>(thread_state, layout.thread_frame);
  if (layout.holder_frame < 0 || holder == nullptr) return holder;
  return ReadAt<const void*>(holder, static_cast<size_t>(layout.holder_frame));
}

// From 3.13 on the interpreter puts a frame of its own below an __init__ that it calls without leaving its loop: its
// code's file has the same name as its function, and it has no line.
inline bool IsInterpretersOwn(const PythonLayout& layout, const void* code) {
  constexpr uint8_t kFirstMinor = 13;
  return layout.minor >= kFirstMinor && ReadAt<int32_t>(code, layout.code_first_line) == 0 &&
         ReadAt<const void*>(code, layout.code_file) == ReadAt<const void*>(code, layout.code_name);
}

// Calls visit(frame, code, byte of the instruction) from the innermost frame outwards until it returns false.
template <typename Visit>
inline void VisitFrames(const PythonRuntime& python, const void* frame, Visit visit) {
  const PythonLayout& layout = python.layout;
  for (; frame != nullptr; frame = ReadAt<const void*>(frame, layout.frame_previous)) {
    if (layout.frame_owner != 0 && ReadAt<uint8_t>(frame, layout.frame_owner) >= kFirstShimOwner) continue;
    uintptr_t reference = ReadAt<uintptr_t>(frame, layout.frame_code) & ~uintptr_t{layout.tag_bits};
    auto code = reinterpret_cast<const char*>(reference);
    if (code == nullptr || ReadAt<const void*>(code, kPyTypeOffset) != python.code_type) continue;
    if (__builtin_expect(IsInterpretersOwn(layout, code), 0)) continue;
    int64_t offset = layout.instruction_unit != 0
                         ? int64_t{ReadAt<int32_t>(frame, layout.frame_instruction)} * layout.instruction_unit
                         : ReadAt<const char*>(frame, layout.frame_instruction) - (code + layout.code_start);
    if (!visit(frame, code, offset)) return;
  }
}

// Whether a frame is the outermost one run by its call of the interpreter (_PyEval_EvalFrameDefault). From 3.12 on that
// call puts a frame of its own below it.
inline bool IsEntryFrame(const PythonRuntime& python, const void* frame) {
  const PythonLayout& layout = python.layout;
  if (layout.frame_entry != 0) return ReadAt<uint8_t>(frame, layout.frame_entry) != 0;
  if (layout.frame_owner == 0) return true;
  const void* outer = ReadAt<const void*>(frame, layout.frame_previous);
  return outer == nullptr || ReadAt<uint8_t>(outer, layout.frame_owner) >= kFirstShimOwner;
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

// kind (3 bits), compact, ascii of a Python string.
inline uint32_t TextBits(const PythonRuntime& python, const void* string) {
  return TextBits(ReadAt<uint32_t>(string, kPyStringState), python.layout);
}
inline bool IsCompactText(const PythonRuntime& python, const void* string) {
  return (TextBits(python, string) & 8) != 0;
}

// How far outwards a stack is searched for modules, possibly beyond the recorded frames.
constexpr uint32_t kMaxVisitedFrames = 4096;

// The text of a Python string as UTF-8, truncated if it does not fit. Returns its size in bytes.
size_t PythonText(const PythonRuntime& python, const void* string, char* text, size_t capacity);

}  // namespace dlhook::inline python

#endif  // DLHOOK_PRELOAD_PYTHON_PYTHON_RUNTIME_H_
