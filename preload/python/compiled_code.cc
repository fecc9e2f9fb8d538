#include <stdio.h>

#include "preload/python/python_api.h"
#include "preload/python/python_exit.h"
#include "preload/python/python_runtime.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"

// Of compiled_calls.py and compiled_code.py, and of compiled_hook.py, each with a NUL at its end: compiled_code_text.S.
extern "C" const char dlhook_compiled_code_text[] __attribute__((visibility("hidden")));
extern "C" const char dlhook_compiled_hook_text[] __attribute__((visibility("hidden")));

namespace dlhook::inline python {
namespace {

constexpr char kCapability[] = "compiled-code";
constexpr char kCompiler[] = "torch._dynamo.utils";  // the module that keeps what was compiled
constexpr char kEvaluation[] =
    "torch._C._dynamo.eval_frame";  // has the interpreter compile the frames that it evaluates
constexpr int kStatements = 257;    // Py_file_input
constexpr size_t kMaxText = 4096;

// What a fact of kind 0 says: a part could not be read.
void ReportRefusal(const char* fact, size_t size) {
  constexpr int kTextsBefore = 8;
  const char* end = fact + size;
  for (int i = 0; i < kTextsBefore && fact < end; ++i) fact += strnlen(fact, static_cast<size_t>(end - fact)) + 1;
  char reason[200];
  snprintf(reason, sizeof reason, "%.*s", fact < end ? static_cast<int>(end - fact) : 0, fact);
  ReportCapability(kCapability, "", CapabilityState::kRefused, reason);
}

bool WriteFact(ThreadState* thread, const char* fact, size_t size) {
  CompiledCodeRecord record = {};
  record.header = {sizeof record / 8, RecordType::kCompiledCode, 0, 0, 0, 0};
  record.text_bytes = static_cast<uint32_t>(size);
  return WriteDescription(thread, &record.header, fact, record.text_bytes, nullptr);
}

void WriteFacts(ThreadState* thread, PyObject* facts) {
  ReportCapability(kCapability, "", CapabilityState::kOn, "read when the interpreter ended");
  ptrdiff_t count = g_python_api.ListSize(facts);
  for (ptrdiff_t i = 0; i < count; ++i) {
    char text[kMaxText];
    size_t size = PythonText(g_python, g_python_api.ListGetItem(facts, i), text, sizeof text);
    if (size > 0 && text[0] == '0') {
      ReportRefusal(text, size);
    } else if (!WriteFact(thread, text, size)) {
      ReportCapability(kCapability, "", CapabilityState::kLost, "there was no room for all of it");
      return;
    }
  }
}

// Not PyRun_String, which makes the interpreter forget that it ends by KeyboardInterrupt: its exit code would differ.
Ref Run(const char* text, const Ref& globals) {
  bool is_set = globals && g_python_api.DictSetItem(globals.get(), "__builtins__", g_python_api.Builtins()) == 0;
  const Ref code(is_set ? g_python_api.Compile(text, "<dlhook>", kStatements) : nullptr);
  return Ref(code ? g_python_api.Evaluate(code.get(), globals.get(), globals.get()) : nullptr);
}

// The compiler's callback for frames, which it sets itself; null: it can't be told.
Ref ExchangeCallback(const Ref& callback) {
  return CallPython(AttributeOfModule(kEvaluation, "set_eval_frame"), callback);
}

bool g_modules_refused = false;  // with the GIL

}  // namespace

// Without the callback, or dlhook's own text would be compiled.
void AskForModules() {
  if (!g_python_api.is_complete()) return;
  const Ref callback = ExchangeCallback(Ref(NewNone()));
  g_modules_refused = !callback || !Run(dlhook_compiled_hook_text, Ref(g_python_api.NewDict()));
  ExchangeCallback(callback);
}

void RecordCompiledCode() {
  ProcessState* process = FindProcess();  // a forked child that does not record has compiled nothing itself
  bool is_recording = process != nullptr && process->phase.load(std::memory_order_acquire) == kRecording;
  if (!is_recording || !g_python_api.is_complete() || ImportedModule(kCompiler) == nullptr) return;
  ThreadState* thread = dlhook_thread;  // the main thread may not have recorded anything
  if (thread == nullptr || thread->active == 0) thread = AttachThread(FamilyBitOf("python"));
  const Ref globals(thread == nullptr ? nullptr : g_python_api.NewDict());
  if (!globals) return;
  const Ref result = Run(dlhook_compiled_code_text, globals);
  PyObject* facts = result ? g_python_api.DictGetItem(globals.get(), "facts") : nullptr;
  if (facts == nullptr) {
    ReportCapability(kCapability, "", CapabilityState::kRefused, "this torch._dynamo keeps something else");
  } else if (g_python_api.ListSize(facts) > 0) {
    WriteFacts(thread, facts);
  }
  if (g_modules_refused)
    ReportCapability(kCapability, "", CapabilityState::kRefused,
                     "modules: this torch._dynamo keeps its graphs elsewhere");
  g_python_api.ErrClear();  // of what WriteFacts read
}

}  // namespace dlhook::inline python
