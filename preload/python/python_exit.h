// The end of the interpreter: it frees the states of threads that still run (daemons), which those threads may be
// reading at that moment. So an atexit callback stops new readers and waits for current ones. Reading costs a store, a
// load and no fence.
// Thread: EnterPython and LeavePython on the reading thread; the callback on Python's main thread with the GIL.
#pragma once

#include <atomic>
#include <cstdint>

namespace dlhook::inline python {

extern std::atomic<uint32_t> g_python_closed;

// False: the interpreter is ending, its structures must no longer be read. `reading` is the thread's own.
inline bool EnterPython(std::atomic<uint32_t>* reading) {
  reading->store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the callback orders the two for the processor (membarrier)
  if (__builtin_expect(g_python_closed.load(std::memory_order_relaxed) == 0, 1)) return true;
  reading->store(0, std::memory_order_release);
  return false;
}

inline void LeavePython(std::atomic<uint32_t>* reading) { reading->store(0, std::memory_order_release); }

// Has the interpreter register the callback, once per process and in its forked children. Needs no GIL. False: it
// accepts no pending call now.
bool WatchPythonExit();

// The same for a callback that reads what torch.compile kept. To be called when the compiler is in use: callbacks run in
// the reverse order of their registration, and PyTorch's own (of weakref.finalize) drop what was compiled.
bool WatchCompilersExit();

// In python/python_stack.cc: is any thread of this process between EnterPython and LeavePython?
bool IsAnyThreadReading();

// In compiled_code.cc, with the GIL; no exception is pending before or after.

// Reads what torch.compile keeps of its work (trace::CompiledCode) by the Python text compiled_code.py, unless the program has
// compiled nothing.
void RecordCompiledCode();

// Has it keep the modules of each graph by the Python text compiled_hook.py, from the next graph on (DLHOOK_COMPILED=modules).
void AskForModules();

}  // namespace dlhook::inline python
