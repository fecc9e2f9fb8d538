#include "preload/python/python_exit.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/python/python_api.h"
#include "preload/python/python_runtime.h"

namespace dlhook::inline python {

std::atomic<uint32_t> g_python_closed{0};

namespace {

constexpr int kMaxSteps = 1000;
constexpr long kStepNs = 100 * 1000;

struct ExitApi {
  int (*AddPendingCall)(int (*function)(void*), void* argument);
  PyObject* (*ImportModule)(const char* name);
  PyObject* (*GetAttrString)(PyObject* object, const char* name);
  PyObject* (*NewFunction)(PyMethodDef* method, PyObject* self, PyObject* module);
  PyObject* (*CallFunction)(PyObject* function, ...);  // PyObject_CallFunctionObjArgs: null ends the list
  void (*ErrFetch)(PyObject** type, PyObject** value, PyObject** traceback);
  void (*ErrRestore)(PyObject* type, PyObject* value, PyObject* traceback);
  void (*ErrClear)();
  void (*IncRef)(PyObject*);
  void (*DecRef)(PyObject*);
  PyObject* none;
};
ExitApi g_api;

void Nap() {
  timespec nap = {0, kStepNs};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
}

// A reader finishes within microseconds; the wait is limited in case one was interrupted for long.
PyObject* OnExit(PyObject*, PyObject*) {
  int saved_errno = errno;
  g_python_closed.store(1);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) Nap();
  for (int step = 0; step < kMaxSteps && IsAnyThreadReading(); ++step) Nap();
  errno = saved_errno;
  g_api.IncRef(g_api.none);
  return g_api.none;
}

PyMethodDef g_on_exit = {"interpreter_ends", &OnExit, 4, nullptr};  // METH_NOARGS

void Register() {
  PyObject* module = g_api.ImportModule("atexit");
  PyObject* register_function = module == nullptr ? nullptr : g_api.GetAttrString(module, "register");
  PyObject* callback = register_function == nullptr ? nullptr : g_api.NewFunction(&g_on_exit, nullptr, nullptr);
  PyObject* const end_of_arguments = nullptr;
  PyObject* result = callback == nullptr ? nullptr : g_api.CallFunction(register_function, callback, end_of_arguments);
  PyObject* const made[] = {module, register_function, callback, result};
  for (PyObject* object : made) {
    if (object != nullptr) g_api.DecRef(object);
  }
  if (result == nullptr) g_api.ErrClear();
}

int OnPendingCall(void*) {
  int saved_errno = errno;
  PyObject *type, *value, *traceback;
  g_api.ErrFetch(&type, &value, &traceback);
  Register();
  g_api.ErrRestore(type, value, traceback);
  errno = saved_errno;
  return 0;
}

template <typename Pointer>
bool Take(const char* name, Pointer* pointer) {
  *pointer = reinterpret_cast<Pointer>(PythonSymbol(name));
  return *pointer != nullptr;
}

}  // namespace

bool WatchPythonExit() {
  static std::atomic<uint32_t> state{0};  // 1: done, or not possible
  if (state.exchange(1) != 0) return true;
  bool complete =
      Take("Py_AddPendingCall", &g_api.AddPendingCall) && Take("PyImport_ImportModule", &g_api.ImportModule) &&
      Take("PyObject_GetAttrString", &g_api.GetAttrString) && Take("PyCFunction_NewEx", &g_api.NewFunction) &&
      Take("PyObject_CallFunctionObjArgs", &g_api.CallFunction) && Take("PyErr_Fetch", &g_api.ErrFetch) &&
      Take("PyErr_Restore", &g_api.ErrRestore) && Take("PyErr_Clear", &g_api.ErrClear) &&
      Take("Py_IncRef", &g_api.IncRef) && Take("Py_DecRef", &g_api.DecRef) && Take("_Py_NoneStruct", &g_api.none);
  bool is_refused = complete && g_api.AddPendingCall(&OnPendingCall, nullptr) != 0;
  if (is_refused) state.store(0);  // 32 are pending already: the next stack tries again
  return !is_refused;
}

}  // namespace dlhook::inline python
