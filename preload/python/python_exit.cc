#include "preload/python/python_exit.h"

#include <linux/membarrier.h>

#include "preload/format/clock.h"
#include "preload/python/python_api.h"
#include "preload/python/python_runtime.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"

namespace dlhook::inline python {

std::atomic<uint32_t> g_python_closed{0};

namespace {

constexpr int kMaxSteps = 1000;
constexpr uint64_t kStepNs = 100 * 1000;

// A reader finishes within microseconds; the wait is limited in case one was interrupted for long.
PyObject* OnExit(PyObject*, PyObject*) {
  ErrnoKeeper keeper;
  g_python_closed.store(1);
  ProcessState* process = FindProcess();
  bool has_session = process != nullptr && process->session != nullptr;  // a forked child may have recorded nothing
  if (has_session) process->session->python.code_type.store(0);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) SleepFor(kStepNs);
  for (int step = 0; step < kMaxSteps && IsAnyThreadReading(); ++step) SleepFor(kStepNs);
  return NewNone();
}

PyObject* OnCompilersExit(PyObject*, PyObject*) {
  ErrnoKeeper keeper;
  RecordCompiledCode();
  return NewNone();
}

PyMethodDef g_on_exit = {"interpreter_ends", {&OnExit}, PyMethodDef::kNoArguments, nullptr};
PyMethodDef g_on_compilers_exit = {"compiler_ends", {&OnCompilersExit}, PyMethodDef::kNoArguments, nullptr};

int OnExitCall(void* method) {
  ErrnoKeeper keeper;
  PyObject *type, *value, *traceback;
  g_python_api.ErrFetch(&type, &value, &traceback);
  if (method == &g_on_compilers_exit && GetConfig().compiled == CompiledMode::kModules) AskForModules();
  const Ref atexit(g_python_api.ImportModule("atexit"));
  CallPython(Attribute(atexit.get(), "register"), NewFunction(static_cast<PyMethodDef*>(method)));
  g_python_api.ErrRestore(type, value, traceback);
  return 0;
}

// `state` 1: done, or not possible.
bool Watch(std::atomic<uint32_t>* state, PyMethodDef* method) {
  if (state->exchange(1) != 0) return true;
  bool is_refused = g_python_api.is_complete() && g_python_api.AddPendingCall(&OnExitCall, method) != 0;
  if (is_refused) state->store(0);  // 32 are pending already: the next stack tries again
  return !is_refused;
}

}  // namespace

bool WatchPythonExit() {
  static std::atomic<uint32_t> state{0};
  return Watch(&state, &g_on_exit);
}

bool WatchCompilersExit() {
  static std::atomic<uint32_t> state{0};
  return Watch(&state, &g_on_compilers_exit);
}

}  // namespace dlhook::inline python
