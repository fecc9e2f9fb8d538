// The JAX tap's listeners of jax.monitoring: each compilation by XLA is a scope of the thread that waits for it.
// Thread: the program's, with the GIL, when a function is compiled; ListenToJaxCompilations: dlhook-jax.
#include <stdio.h>
#include <string.h>

#include "preload/runtime/scope.h"
#include "preload/tap/jax_session.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr char kEvent[] = "/jax/core/compile/backend_compile_duration";

const char* TextOf(PyObject* text) {
  const char* utf8 = text == nullptr ? nullptr : g_jax_api.TextAsUtf8(text);
  if (utf8 == nullptr) g_python_api.ErrClear();
  return utf8 == nullptr ? "" : utf8;
}

// Listeners get (event, value, fun_name=…). Null: it is another event, or nothing is recorded.
ThreadState* ThreadOfCompilation(PyObject* arguments) {
  bool is_its = strcmp(TextOf(g_jax_api.TupleGetItem(arguments, 0)), kEvent) == 0;
  return is_its ? ScopeThread(FamilyBit<kJaxTap>()) : nullptr;
}

PyObject* None() {
  g_python_api.IncRef(g_python_api.none);
  return g_python_api.none;
}

PyObject* OnBegin(PyObject*, PyObject* arguments, PyObject* keywords) {
  ThreadState* thread = ThreadOfCompilation(arguments);
  if (thread == nullptr || keywords == nullptr) return None();
  char name[256];
  snprintf(name, sizeof name, "%s%s", kXlaCompiles, TextOf(g_jax_api.DictGetItem(keywords, "fun_name")));
  OpenScope(thread, ScopeKind::kXlaCompilation, name, strlen(name), -1, kEvent);
  return None();
}

PyObject* OnEnd(PyObject*, PyObject* arguments, PyObject*) {
  if (ThreadState* thread = ThreadOfCompilation(arguments)) CloseScope(thread, kEvent);
  return None();
}

bool Listen(const char* list, PyMethodDef* definition) {
  Ref add(AttributeOfModule("jax._src.monitoring", list));
  Ref listener(g_python_api.NewFunction(definition, nullptr, nullptr));
  Ref arguments(g_jax_api.NewTuple(1));
  if (!add || !listener || !arguments) return false;
  g_jax_api.TupleSetItem(arguments.get(), 0, listener.Release());
  return static_cast<bool>(Ref(g_jax_api.Call(add.get(), arguments.get(), nullptr)));
}

}  // namespace

void ListenToJaxCompilations() {
  static bool is_listening = false;  // a forked child inherits the lists of listeners
  static PyMethodDef begin = WithKeywordsDefinition("compilation_begins", &OnBegin);
  static PyMethodDef end = WithKeywordsDefinition("compilation_ends", &OnEnd);
  if (is_listening) return;
  is_listening = true;
  if (Listen("register_event_duration_secs_listener", &end)) Listen("register_scalar_listener", &begin);
}

}  // namespace dlhook::inline tap
