// What the JAX tap writes into the trace: profiles and programs as jaxlib returned them, in pieces.
// Thread: dlhook-jax; waits for the drain without the GIL.
#include <stdio.h>

#include <algorithm>

#include "preload/runtime/definition_table.h"
#include "preload/runtime/scope.h"
#include "preload/tap/jax_session.h"
#include "preload/tap/jax_windows.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr size_t kPieceBytes = 4000;  // a quarter of the smallest ring

void WriteProfile(ProfileKind kind, const char* data, size_t bytes) {
  ProfileRecord head = {};
  head.kind = kind;
  head.number = ++g_jax.profiles;
  head.total_bytes = bytes;
  head.start_ticks = g_jax.start_ticks;
  head.end_ticks = g_jax.end_ticks;
  for (; head.offset < bytes; head.offset += head.text_bytes) {
    head.header = {sizeof head / 8, RecordType::kProfile, 0, 0, 0, 0};
    head.text_bytes = static_cast<uint32_t>(std::min(kPieceBytes, bytes - head.offset));
    uint32_t naps = 0;
    bool is_written = WriteDescription(dlhook_thread, &head.header, data + head.offset, head.text_bytes, &naps);
    if (!is_written) return;  // the report says that a piece is missing
  }
}

DefinitionTable<1 << 14> g_written;  // programs, by their fingerprints

bool IsNew(const char* fingerprint, size_t bytes) {
  uint64_t key = HashBytes(fingerprint, bytes);
  auto entry = g_written.Find(key);
  bool is_new = entry != nullptr && entry->used == 0;
  if (is_new) g_written.Fill(entry, key, 0);
  return is_new;
}

bool IsNewProgram(const Ref& program) {
  char* data = nullptr;
  size_t size = 0;
  const Ref fingerprint = Attribute(program.get(), "fingerprint");
  if (BytesOf(fingerprint.get(), &data, &size)) return IsNew(data, size);
  PyObject* address = program.get();  // a plugin may have no fingerprints
  return IsNew(reinterpret_cast<const char*>(&address), sizeof address);
}

// A GPU's program counts its constants there, and even asking for its module copies them. The CPU's doesn't know: 0.
bool IsSmall(const Ref& program) {
  constexpr long long kMostBytes = 64 << 20;
  const Ref size = CallPython(Attribute(program.get(), "size_of_generated_code_in_bytes"));
  long long bytes = size ? g_python_api.AsLongLong(size.get()) : 0;
  if (bytes < 0) g_python_api.ErrClear();
  return bytes <= kMostBytes;
}

// Serializing copies arrays that a program holds as constants, which may be all that the program's memory has room for.
bool HasFewConstants(PyObject* module) {
  constexpr uint64_t kMostElements = 1 << 17;
  // Up to 0.10.1 it is in jaxlib._jax.
  const char* home = ImportedModule("jaxlib._hlo") != nullptr ? "jaxlib._hlo" : "jaxlib._jax";
  const Ref options = CallPython(AttributeOfModule(home, "HloPrintOptions"));
  if (!options) return false;
  for (const char* name : {"print_large_constants", "print_metadata", "print_backend_config"}) {
    SetOption(options, name, g_python_api.BoolFromLong(0));
  }
  const Ref text = CallPython(Attribute(module, "to_string"), options);
  const char* utf8 = text ? g_python_api.TextAsUtf8(text.get()) : nullptr;
  if (utf8 == nullptr) g_python_api.ErrClear();
  return utf8 != nullptr && ConstantElements(utf8) <= kMostElements;
}

// The next program that is not in the trace yet, serialized; null: there is none, or it has many constants.
PyObject* TakeProgram(PyObject* programs, ptrdiff_t count, ptrdiff_t* next) {
  while (*next < count) {
    PyObject* borrowed = g_python_api.ListGetItem(programs, (*next)++);
    if (borrowed == nullptr) return nullptr;
    g_python_api.IncRef(borrowed);
    Ref program(borrowed);
    if (!IsNewProgram(program) || !IsSmall(program)) continue;
    const Ref modules = CallPython(Attribute(program.get(), "hlo_modules"));
    PyObject* first = modules ? g_python_api.ListGetItem(modules.get(), 0) : nullptr;
    if (first == nullptr) g_python_api.ErrClear();
    if (first == nullptr || !HasFewConstants(first)) return nullptr;
    return CallPython(Attribute(first, "as_serialized_hlo_module_proto")).Release();
  }
  return nullptr;
}

constexpr char kEvent[] = "/jax/core/compile/backend_compile_duration";

const char* TextOf(PyObject* text) {
  const char* utf8 = text == nullptr ? nullptr : g_python_api.TextAsUtf8(text);
  if (utf8 == nullptr) g_python_api.ErrClear();
  return utf8 == nullptr ? "" : utf8;
}

// Listeners get (event, value, fun_name=…). Null: it is another event, or nothing is recorded.
ThreadState* ThreadOfCompilation(PyObject* arguments) {
  bool is_its = strcmp(TextOf(g_python_api.TupleGetItem(arguments, 0)), kEvent) == 0;
  return is_its ? ScopeThread(FamilyBit<kJaxTap>()) : nullptr;
}

// A range of no length, once, with the name of each switch for finding errors that is on, also if the program sets it.
void NoteSwitches(ThreadState* thread) {
  constexpr const char* kSwitches[] = {"jax_debug_nans", "jax_disable_jit", "jax_enable_checks"};
  static bool is_noted[std::size(kSwitches)];
  const Ref config = AttributeOfModule("jax._src.config", "config");
  for (size_t i = 0; i < std::size(kSwitches); ++i) {
    const Ref value = Attribute(config.get(), kSwitches[i]);
    long long is_on = value && !is_noted[i] ? g_python_api.AsLongLong(value.get()) : 0;
    if (is_on < 0) g_python_api.ErrClear();
    if (is_on != 1) continue;
    is_noted[i] = true;
    RecordEndedScope(thread, ScopeKind::kUserRange, kSwitches[i], strlen(kSwitches[i]), 0);
  }
}

PyObject* OnBegin(PyObject*, PyObject* arguments, PyObject* keywords) {
  ThreadState* thread = ThreadOfCompilation(arguments);
  if (thread == nullptr || keywords == nullptr) return NewNone();
  NoteSwitches(thread);
  char name[256];
  snprintf(name, sizeof name, "%s%s", kXlaCompiles, TextOf(g_python_api.DictGetItem(keywords, "fun_name")));
  OpenScope(thread, ScopeKind::kXlaCompilation, name, strlen(name), -1, kEvent);
  return NewNone();
}

PyObject* OnEnd(PyObject*, PyObject* arguments, PyObject*) {
  if (ThreadState* thread = ThreadOfCompilation(arguments)) CloseScope(thread, kEvent);
  return NewNone();
}

PyMethodDef g_compilation_begins = {
    "compilation_begins", {.with_keywords = &OnBegin}, PyMethodDef::kWithKeywords, nullptr};
PyMethodDef g_compilation_ends = {"compilation_ends", {.with_keywords = &OnEnd}, PyMethodDef::kWithKeywords, nullptr};

bool Listen(const char* list, PyMethodDef* listener) {
  return static_cast<bool>(CallPython(AttributeOfModule("jax._src.monitoring", list), NewFunction(listener)));
}

}  // namespace

Ref JaxPrograms() {
  const Ref backends = AttributeOfModule("jax._src.xla_bridge", "_backends");
  const Ref clients(backends ? g_python_api.DictValues(backends.get()) : nullptr);
  PyObject* all = nullptr;
  for (ptrdiff_t i = 0; clients && i < g_python_api.ListSize(clients.get()); ++i) {
    Ref live = CallPython(Attribute(g_python_api.ListGetItem(clients.get(), i), "live_executables"));
    if (all == nullptr)
      all = live.Release();
    else if (live)
      Ref(g_python_api.Append(all, live.get()));
  }
  return Ref(all);
}

// Of the result of a window, once, without the GIL: nobody changes bytes.
size_t WriteJaxResult() {
  PyObject* result = nullptr;
  char* data = nullptr;
  size_t size = 0;
  WithGil([&] {
    result = g_jax.result;
    g_jax.result = nullptr;
    BytesOf(result, &data, &size);
  });
  WriteProfile(ProfileKind::kXspace, data, size);
  if (result != nullptr) WithGil([&] { g_python_api.DecRef(result); });
  return size;
}

// The GIL is held for one new program at a time.
void WriteJaxPrograms() {
  PyObject* programs = nullptr;
  ptrdiff_t count = 0, next = 0;
  WithGil([&] {
    NoCollection no_collection;
    programs = JaxPrograms().Release();
    count = programs == nullptr ? 0 : g_python_api.ListSize(programs);
  });
  while (next < count) {
    PyObject* program = nullptr;
    char* data = nullptr;
    size_t size = 0;
    bool has_gil = WithGil([&] {
      NoCollection no_collection;
      program = TakeProgram(programs, count, &next);
      if (program != nullptr && BytesOf(program, &data, &size))
        ClearConstants(data, size);  // nobody else knows them yet
    });
    if (!has_gil) break;
    WriteProfile(ProfileKind::kHloModule, data, size);
    if (program != nullptr) WithGil([&] { g_python_api.DecRef(program); });
  }
  if (programs != nullptr) WithGil([&] { g_python_api.DecRef(programs); });
}

void ForgetJaxPrograms() { memset(static_cast<void*>(&g_written), 0, sizeof g_written); }

void ListenToJaxCompilations() {
  static bool is_listening = false;  // a forked child inherits the lists of listeners
  if (is_listening) return;
  is_listening = true;
  if (Listen("register_event_duration_secs_listener", &g_compilation_ends))
    Listen("register_scalar_listener", &g_compilation_begins);
}

}  // namespace dlhook::inline tap
