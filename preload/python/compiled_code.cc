#include <stdio.h>

#include "preload/python/python_api.h"
#include "preload/python/python_exit.h"
#include "preload/python/python_runtime.h"
#include "preload/runtime/config.h"
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

struct Api {
  PyObject* (*ModuleDict)();                                  // borrowed
  PyObject* (*DictGetItem)(PyObject* dict, const char* key);  // borrowed
  PyObject* (*NewDict)();
  int (*DictSetItem)(PyObject* dict, const char* key, PyObject* value);
  PyObject* (*Builtins)();  // borrowed
  PyObject* (*Compile)(const char* text, const char* file, int start);
  PyObject* (*Evaluate)(PyObject* code, PyObject* globals, PyObject* locals);
  PyObject* (*ListGetItem)(PyObject* list, ptrdiff_t index);  // borrowed
  ptrdiff_t (*ListSize)(PyObject* list);
  PyObject* (*GetAttrString)(PyObject* object, const char* name);
  PyObject* (*CallFunction)(PyObject* function, ...);  // PyObject_CallFunctionObjArgs: null ends the list
  PyObject* none;
  void (*DecRef)(PyObject*);
  void (*ErrClear)();
};

bool Load(Api* api) {
  return TakePythonSymbol("PyImport_GetModuleDict", &api->ModuleDict) &&
         TakePythonSymbol("PyDict_GetItemString", &api->DictGetItem) && TakePythonSymbol("PyDict_New", &api->NewDict) &&
         TakePythonSymbol("PyDict_SetItemString", &api->DictSetItem) &&
         TakePythonSymbol("PyEval_GetBuiltins", &api->Builtins) &&
         TakePythonSymbol("Py_CompileString", &api->Compile) && TakePythonSymbol("PyEval_EvalCode", &api->Evaluate) &&
         TakePythonSymbol("PyList_GetItem", &api->ListGetItem) && TakePythonSymbol("PyList_Size", &api->ListSize) &&
         TakePythonSymbol("PyObject_GetAttrString", &api->GetAttrString) &&
         TakePythonSymbol("PyObject_CallFunctionObjArgs", &api->CallFunction) &&
         TakePythonSymbol("_Py_NoneStruct", &api->none) && TakePythonSymbol("Py_DecRef", &api->DecRef) &&
         TakePythonSymbol("PyErr_Clear", &api->ErrClear);
}

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
  uint32_t words = static_cast<uint32_t>((sizeof(CompiledCodeRecord) + size + 7) / 8);
  FrameMark mark;
  RecordHeader* header = ReserveDescription(thread, words, &mark);
  if (header == nullptr) return false;
  auto record = reinterpret_cast<CompiledCodeRecord*>(header);
  record->header = {static_cast<uint16_t>(words), RecordType::kCompiledCode, 0, 0, 0, 0};
  record->text_bytes = static_cast<uint32_t>(size);
  record->reserved = 0;
  memcpy(record + 1, fact, size);
  CommitRecord(thread, header);
  return true;
}

void WriteFacts(const Api& api, ThreadState* thread, PyObject* facts) {
  ReportCapability(kCapability, "", CapabilityState::kOn, "read when the interpreter ended");
  ptrdiff_t count = api.ListSize(facts);
  for (ptrdiff_t i = 0; i < count; ++i) {
    char text[kMaxText];
    size_t size = PythonText(g_python, api.ListGetItem(facts, i), text, sizeof text);
    if (size > 0 && text[0] == '0') {
      ReportRefusal(text, size);
    } else if (!WriteFact(thread, text, size)) {
      ReportCapability(kCapability, "", CapabilityState::kLost, "there was no room for all of it");
      return;
    }
  }
}

// Not PyRun_String, which makes the interpreter forget that it ends by KeyboardInterrupt: its exit code would differ.
PyObject* Run(const Api& api, const char* text, PyObject* globals) {
  if (api.DictSetItem(globals, "__builtins__", api.Builtins()) != 0) return nullptr;
  PyObject* code = api.Compile(text, "<dlhook>", kStatements);
  if (code == nullptr) return nullptr;
  PyObject* result = api.Evaluate(code, globals, globals);
  api.DecRef(code);
  return result;
}

// The compiler's callback for frames, which it sets itself; a new reference, null: it can't be told.
PyObject* ExchangeCallback(const Api& api, PyObject* callback) {
  PyObject* evaluation = api.DictGetItem(api.ModuleDict(), kEvaluation);
  PyObject* set = evaluation == nullptr ? nullptr : api.GetAttrString(evaluation, "set_eval_frame");
  PyObject* const end_of_arguments = nullptr;
  PyObject* before = set == nullptr ? nullptr : api.CallFunction(set, callback, end_of_arguments);
  if (set != nullptr) api.DecRef(set);
  return before;
}

bool g_modules_refused = false;  // with the GIL

}  // namespace

// Without the callback, or dlhook's own text would be compiled.
void AskForModules() {
  Api api;
  if (!Load(&api)) return;
  PyObject* callback = ExchangeCallback(api, api.none);
  PyObject* globals = callback == nullptr ? nullptr : api.NewDict();
  PyObject* result = globals == nullptr ? nullptr : Run(api, dlhook_compiled_hook_text, globals);
  g_modules_refused = result == nullptr;
  api.ErrClear();
  PyObject* none = callback == nullptr ? nullptr : ExchangeCallback(api, callback);
  for (PyObject* object : {callback, globals, result, none}) {
    if (object != nullptr) api.DecRef(object);
  }
  api.ErrClear();
}

void RecordCompiledCode() {
  Api api;
  if (!Load(&api) || api.DictGetItem(api.ModuleDict(), kCompiler) == nullptr) return;
  ThreadState* thread = dlhook_thread;  // the main thread may not have recorded anything
  if (thread == nullptr || thread->active == 0) thread = AttachThread(FamilyBitOf("python"));
  if (thread == nullptr) return;
  PyObject* globals = api.NewDict();
  if (globals == nullptr) return api.ErrClear();
  PyObject* result = Run(api, dlhook_compiled_code_text, globals);
  PyObject* facts = result == nullptr ? nullptr : api.DictGetItem(globals, "facts");
  if (facts == nullptr) {
    ReportCapability(kCapability, "", CapabilityState::kRefused, "this torch._dynamo keeps something else");
  } else if (api.ListSize(facts) > 0) {
    WriteFacts(api, thread, facts);
  }
  if (g_modules_refused)
    ReportCapability(kCapability, "", CapabilityState::kRefused,
                     "modules: this torch._dynamo keeps its graphs elsewhere");
  api.ErrClear();
  if (result != nullptr) api.DecRef(result);
  api.DecRef(globals);
}

}  // namespace dlhook::inline python
