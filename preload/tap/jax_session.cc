#include "preload/tap/jax_session.h"

#include "preload/base/process_id.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline tap {
namespace {

void RestoreAttribute(const char* name, PyObject* ours, PyObject* users) {
  Ref current(g_python_api.GetAttrString(g_jax.profiler, name));
  if (ours != nullptr && current.get() == ours) SetAttribute(g_jax.profiler, name, users);
}

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

PyObject* OnUsersSession(PyObject*, PyObject* arguments, PyObject* keywords) {
  YieldToUser();
  return g_python_api.Call(g_jax.users_session, arguments, keywords);
}

PyObject* OnUsersServer(PyObject*, PyObject* arguments, PyObject* keywords) {
  YieldToUser();
  return g_python_api.Call(g_jax.users_server, arguments, keywords);
}

PyMethodDef g_session_definition;
PyMethodDef g_server_definition;

bool MakeYielders() {
  if (g_jax.our_session != nullptr) return true;
  g_session_definition = WithKeywordsDefinition("ProfilerSession", &OnUsersSession);
  g_server_definition = WithKeywordsDefinition("start_server", &OnUsersServer);
  g_jax.our_server = Ref(g_python_api.NewFunction(&g_server_definition, nullptr, nullptr)).Release();
  if (g_jax.our_server == nullptr) return false;
  g_jax.our_session = Ref(g_python_api.NewFunction(&g_session_definition, nullptr, nullptr)).Release();
  return g_jax.our_session != nullptr;
}

// What is there now: the program may have put something of its own in their place.
bool FindUsers() {
  PyObject* session = Ref(g_python_api.GetAttrString(g_jax.profiler, "ProfilerSession")).Release();
  PyObject* server = Ref(g_python_api.GetAttrString(g_jax.profiler, "start_server")).Release();
  PyObject* before[] = {g_jax.users_session, g_jax.users_server};
  if (session == nullptr || server == nullptr || session == g_jax.our_session) return false;
  g_jax.users_session = session;
  g_jax.users_server = server;
  for (PyObject* object : before) {
    if (object != nullptr) g_python_api.DecRef(object);
  }
  return true;
}

PyObject* NewSession() {
  Ref make_options(g_python_api.GetAttrString(g_jax.profiler, "ProfileOptions"));
  Ref options(CallWithout(make_options));
  if (!options) return nullptr;
  SetOption(options, "python_tracer_level", g_python_api.LongFromLong(0));
  SetOption(options, "host_tracer_level", g_python_api.LongFromLong(1));
  SetOption(options, "enable_hlo_proto", g_python_api.BoolFromLong(0));
  Ref arguments(g_python_api.NewTuple(1));
  if (!arguments) return nullptr;
  g_python_api.TupleSetItem(arguments.get(), 0, options.Release());
  return g_python_api.Call(g_jax.users_session, arguments.get(), nullptr);
}

}  // namespace

PyObject* Module(const char* name) { return g_python_api.DictGetItem(g_python_api.ModuleDict(), name); }

PyObject* Attribute(const Ref& object, const char* name) {
  return object ? g_python_api.GetAttrString(object.get(), name) : nullptr;
}

PyObject* AttributeOfModule(const char* module, const char* name) {
  PyObject* found = Module(module);
  return found == nullptr ? nullptr : g_python_api.GetAttrString(found, name);
}

PyObject* CallWithout(const Ref& function) {
  Ref nothing(g_python_api.NewTuple(0));
  return function && nothing ? g_python_api.Call(function.get(), nothing.get(), nullptr) : nullptr;
}

void SetAttribute(PyObject* object, const char* name, PyObject* value) {
  if (value == nullptr || g_python_api.SetAttr(object, name, value) != 0) g_python_api.ErrClear();
}

void SetOption(const Ref& options, const char* name, PyObject* value) {
  Ref reference(value);
  SetAttribute(options.get(), name, reference.get());
}

PyMethodDef WithKeywordsDefinition(const char* name, WithKeywords function) {
  constexpr int kVarArgsKeywords = 3;
  return {name, reinterpret_cast<PyObject* (*)(PyObject*, PyObject*)>(reinterpret_cast<void*>(function)),
          kVarArgsKeywords, nullptr};
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
  timespec nap = {0, 1'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  g_python_api.RestoreThread(thread);
}

bool IsJaxOwnProcess() { return g_jax.pid.load(std::memory_order_relaxed) == ProcessId(); }

// jaxlib releases the GIL meanwhile.
void StopJaxWindow() {
  g_jax.window.store(JaxWindow::kClosing);
  g_jax.end_ticks = ReadTicks(g_jax.clock);
  {
    Ref stop(g_jax.stop);
    g_jax.stop = nullptr;
    g_jax.result = Ref(CallWithout(stop)).Release();
  }
  RestoreAttribute("ProfilerSession", g_jax.our_session, g_jax.users_session);
  RestoreAttribute("start_server", g_jax.our_server, g_jax.users_server);
  g_jax.window.store(JaxWindow::kNone);
}

// From the moment on in which the session may exist, the program's own waits for it.
void OpenJaxWindow() {
  g_jax.profiler = Module("jaxlib._profiler");
  if (!MakeYielders() || !FindUsers()) return;
  g_jax.window.store(JaxWindow::kOpening);
  SetAttribute(g_jax.profiler, "ProfilerSession", g_jax.our_session);
  SetAttribute(g_jax.profiler, "start_server", g_jax.our_server);
  g_jax.clock = dlhook_thread->clock;
  g_jax.start_ticks = ReadTicks(g_jax.clock);
  Ref session(NewSession());
  g_jax.stop = Ref(Attribute(session, "stop")).Release();
  g_jax.window.store(JaxWindow::kOpen);
}

}  // namespace dlhook::inline tap
