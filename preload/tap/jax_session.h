// The JAX tap's window: jaxlib's profiler while dlhook has it, and how the program gets it.
// Thread: dlhook-jax, and threads of the program that want the profiler; all with the GIL, which protects the state but its
// atomics.
#pragma once

#include "preload/format/clock.h"
#include "preload/python/python_api.h"
#include "preload/python/python_runtime.h"

namespace dlhook::inline tap {

void SetAttribute(PyObject* object, const char* name, PyObject* value);
void SetOption(const Ref& options, const char* name, PyObject* value);  // takes the reference to the value
// The bytes of a bytes object; false: it is none.
bool BytesOf(PyObject* object, char** data, size_t* size);

enum class JaxWindow : uint32_t { kNone, kOpening, kOpen, kClosing };

struct JaxState {
  std::atomic<uint32_t> pid;     // of the process with the thread; a forked child has none
  std::atomic<uint32_t> ends;    // futex; 1: the interpreter ends
  std::atomic<uint32_t> done;    // 1: the thread no longer uses Python
  std::atomic<uint32_t> closed;  // 1: it must not
  std::atomic<uint32_t> inside;  // 1: it does, or waits for the GIL
  std::atomic<JaxWindow> window;
  bool has_exit;
  PyObject* profiler;  // jaxlib._profiler; borrowed: modules stay
  PyObject* stop;      // of the open session, which it keeps
  PyObject* result;    // of a session that has ended: bytes, not yet written
  ClockKind clock;
  uint64_t start_ticks;
  uint64_t end_ticks;
  ptrdiff_t programs;  // compiled, when last counted
  uint64_t settled_since_ns;
  uint64_t unsettled_since_ns;
  uint32_t profiles;
  bool has_limit;  // of what is recorded, and it was reported
};
extern JaxState g_jax;

// Of this process, not of the one that forked it.
bool IsJaxOwnProcess();

// Waits a millisecond without the GIL.
void StepAside();

// Runs `work` with the GIL, unless the interpreter ends: a thread that then asks for it is ended, in the middle of
// whatever it does. On dlhook-jax.
template <typename Work>
bool WithGil(Work work) {
  g_jax.inside.store(1);
  bool is_open = g_jax.closed.load() == 0 && g_python.is_finalizing() == 0;
  if (is_open) {
    int state = g_python_api.EnsureGil();
    work();
    g_python_api.ReleaseGil(state);
  }
  g_jax.inside.store(0);
  return is_open;
}

// Opens a window, or doesn't, as g_jax.window tells; stops the open one, whose result is then in g_jax.
void OpenJaxWindow();
void StopJaxWindow();

// In jax_profiles.cc, once, with the GIL: each compilation by XLA is a scope of the thread that waits for it.
void ListenToJaxCompilations();

// In jax_profiles.cc, without the GIL: the result of the last window, whose size it returns, and the programs that are not
// in the trace yet.
size_t WriteJaxResult();
void WriteJaxPrograms();
void ForgetJaxPrograms();
// The compiled programs as a list, or null. With the GIL.
Ref JaxPrograms();

}  // namespace dlhook::inline tap
