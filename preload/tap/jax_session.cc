#include "preload/tap/jax_session.h"

#include "preload/base/process_id.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline tap {
namespace {

// The program wants the profiler for itself, of which there is one per process.
void YieldToUser() {
  if (!IsJaxOwnProcess()) {  // a forked child inherits a session that holds the profiler, and no thread
    if (g_jax.window.load() != JaxWindow::kNone && g_jax.stop != nullptr) StopJaxWindow();
    return;
  }
  for (;;) {
    JaxWindow window = g_jax.window.load();
    if (window == JaxWindow::kNone) return;
    if (window == JaxWindow::kOpen) return StopJaxWindow();
    StepAside();
  }
}

// The functions of jaxlib._profiler that take the profiler: while dlhook's window is open, they are functions of dlhook's.
template <int kNumber>
PyObject* OnUse(PyObject*, PyObject* arguments, PyObject* keywords);
struct Use {
  PyMethodDef method;
  PyObject* ours = nullptr;
  PyObject* users = nullptr;  // what the program finds there without dlhook
};
Use g_uses[] = {
    {{"ProfilerSession", {.with_keywords = &OnUse<0>}, PyMethodDef::kWithKeywords, nullptr}},
    {{"start_server", {.with_keywords = &OnUse<1>}, PyMethodDef::kWithKeywords, nullptr}},
};

template <int kNumber>
PyObject* OnUse(PyObject*, PyObject* arguments, PyObject* keywords) {
  YieldToUser();
  return g_python_api.Call(g_uses[kNumber].users, arguments, keywords);
}

// What is there now: the program may have put something of its own in their place. False: one is missing, or still dlhook's.
bool FindUses() {
  for (Use& use : g_uses) {
    if (use.ours == nullptr) use.ours = NewFunction(&use.method).Release();
    Ref found = Attribute(g_jax.profiler, use.method.name);
    if (use.ours == nullptr || !found || found.get() == use.ours) return false;
    if (use.users != nullptr) g_python_api.DecRef(use.users);
    use.users = found.Release();
  }
  return true;
}

Ref NewSession() {
  const Ref options = CallPython(Attribute(g_jax.profiler, "ProfileOptions"));
  if (!options) return Ref(nullptr);
  SetOption(options, "python_tracer_level", g_python_api.LongFromLong(0));
  SetOption(options, "host_tracer_level", g_python_api.LongFromLong(1));
  SetOption(options, "enable_hlo_proto", g_python_api.BoolFromLong(0));
  PyObject* const end = nullptr;
  return Ref(g_python_api.CallFunction(g_uses[0].users, options.get(), end));
}

}  // namespace

void SetAttribute(PyObject* object, const char* name, PyObject* value) {
  if (value == nullptr || g_python_api.SetAttr(object, name, value) != 0) g_python_api.ErrClear();
}

void SetOption(const Ref& options, const char* name, PyObject* value) {
  Ref reference(value);
  SetAttribute(options.get(), name, reference.get());
}

bool BytesOf(PyObject* object, char** data, size_t* size) {
  ptrdiff_t length = 0;
  if (object == nullptr || g_python_api.BytesAsString(object, data, &length) != 0) {
    g_python_api.ErrClear();
    return false;
  }
  *size = static_cast<size_t>(length);
  return true;
}

JaxState g_jax;

void StepAside() {
  void* thread = g_python_api.SaveThread();
  SleepFor(1'000'000);
  g_python_api.RestoreThread(thread);
}

bool IsJaxOwnProcess() { return g_jax.pid.load(std::memory_order_relaxed) == ProcessId(); }

// jaxlib releases the GIL meanwhile.
void StopJaxWindow() {
  g_jax.window.store(JaxWindow::kClosing);
  g_jax.end_ticks = ReadTicks(g_jax.clock);
  {
    const Ref stop(g_jax.stop);
    g_jax.stop = nullptr;
    g_jax.result = CallPython(stop).Release();
  }
  for (const Use& use : g_uses) {
    bool is_ours = Attribute(g_jax.profiler, use.method.name).get() == use.ours;
    if (is_ours) SetAttribute(g_jax.profiler, use.method.name, use.users);
  }
  g_jax.window.store(JaxWindow::kNone);
}

// From the moment on in which the session may exist, the program's own waits for it.
void OpenJaxWindow() {
  g_jax.profiler = ImportedModule("jaxlib._profiler");
  if (!FindUses()) return;
  g_jax.window.store(JaxWindow::kOpening);
  for (const Use& use : g_uses) SetAttribute(g_jax.profiler, use.method.name, use.ours);
  g_jax.clock = dlhook_thread->clock;
  g_jax.start_ticks = ReadTicks(g_jax.clock);
  const Ref session = NewSession();
  g_jax.stop = Attribute(session.get(), "stop").Release();
  g_jax.window.store(JaxWindow::kOpen);
}

}  // namespace dlhook::inline tap
