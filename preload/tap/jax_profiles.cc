// What the JAX tap writes into the trace: profiles and programs as jaxlib returned them, in pieces.
// Thread: dlhook-jax; waits for the drain without the GIL.
#include <stdio.h>

#include "preload/runtime/scope.h"
#include "preload/runtime/thread_state.h"
#include "preload/tap/jax_session.h"
#include "preload/tap/jax_windows.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr size_t kPieceBytes = 4000;  // a quarter of the smallest ring

void WriteProfile(ProfileKind kind, const char* data, size_t bytes) {
  ThreadState* thread = dlhook_thread;
  ProfileRecord head = {};
  head.kind = kind;
  head.number = ++g_jax.profiles;
  head.total_bytes = bytes;
  head.start_ticks = g_jax.start_ticks;
  head.end_ticks = g_jax.end_ticks;
  for (head.offset = 0; head.offset < bytes; head.offset += kPieceBytes) {
    size_t rest = bytes - head.offset;
    head.text_bytes = static_cast<uint32_t>(rest < kPieceBytes ? rest : kPieceBytes);
    uint32_t words = static_cast<uint32_t>((sizeof head + head.text_bytes + 7) / 8);
    head.header = {static_cast<uint16_t>(words), RecordType::kProfile, 0, 0, 0, 0};
    FrameMark mark;
    uint32_t naps = 0;
    RecordHeader* space = ReservePatiently(thread, words, &mark, &naps);
    if (space == nullptr) return;  // the report says that a piece is missing
    memcpy(static_cast<void*>(space), &head, sizeof head);
    memcpy(reinterpret_cast<char*>(space) + sizeof head, data + head.offset, head.text_bytes);
    CommitRecord(thread, space);
  }
}

// Fingerprints of the programs that were written.
struct Seen {
  static constexpr uint32_t kEntries = 1 << 14;
  uint64_t hashes[kEntries];
  uint32_t count;

  // True: it is new.
  bool Add(const char* data, size_t bytes) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(data[i])) * 1099511628211u;
    if (hash == 0) hash = 1;
    if (count >= kEntries / 2) return false;
    for (uint64_t i = hash;; ++i) {
      uint64_t& entry = hashes[i % kEntries];
      if (entry == hash) return false;
      if (entry != 0) continue;
      entry = hash;
      ++count;
      return true;
    }
  }
};
Seen g_seen;

bool IsNewProgram(const Ref& program) {
  char* data = nullptr;
  size_t size = 0;
  Ref fingerprint(Attribute(program, "fingerprint"));
  if (BytesOf(fingerprint.get(), &data, &size)) return g_seen.Add(data, size);
  PyObject* address = program.get();  // a plugin may have no fingerprints
  return g_seen.Add(reinterpret_cast<const char*>(&address), sizeof address);
}

// A GPU's program counts its constants there, and even asking for its module copies them. The CPU's doesn't know: 0.
bool IsSmall(const Ref& program) {
  constexpr long long kMostBytes = 64 << 20;
  Ref get_size(Attribute(program, "size_of_generated_code_in_bytes"));
  Ref size(CallWithout(get_size));
  long long bytes = size ? g_python_api.AsLongLong(size.get()) : 0;
  if (bytes < 0) g_python_api.ErrClear();
  return bytes <= kMostBytes;
}

// Serializing copies arrays that a program holds as constants, which may be all that the program's memory has room for.
bool HasFewConstants(PyObject* module) {
  constexpr uint64_t kMostElements = 1 << 17;
  // Up to 0.10.1 it is in jaxlib._jax.
  Ref make_options(
      AttributeOfModule(Module("jaxlib._hlo") != nullptr ? "jaxlib._hlo" : "jaxlib._jax", "HloPrintOptions"));
  Ref options(CallWithout(make_options));
  if (!options) return false;
  for (const char* name : {"print_large_constants", "print_metadata", "print_backend_config"}) {
    SetOption(options, name, g_python_api.BoolFromLong(0));
  }
  Ref print(g_python_api.GetAttrString(module, "to_string"));
  Ref arguments(g_python_api.NewTuple(1));
  if (!print || !arguments) return false;
  g_python_api.TupleSetItem(arguments.get(), 0, options.Release());
  Ref text(g_python_api.Call(print.get(), arguments.get(), nullptr));
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
    Ref get_modules(Attribute(program, "hlo_modules"));
    Ref modules(CallWithout(get_modules));
    PyObject* first = modules ? g_python_api.ListGetItem(modules.get(), 0) : nullptr;
    if (first == nullptr) g_python_api.ErrClear();
    if (first == nullptr || !HasFewConstants(first)) return nullptr;
    Ref serialize(g_python_api.GetAttrString(first, "as_serialized_hlo_module_proto"));
    return Ref(CallWithout(serialize)).Release();
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

PyObject* None() {
  g_python_api.IncRef(g_python_api.none);
  return g_python_api.none;
}

PyObject* OnBegin(PyObject*, PyObject* arguments, PyObject* keywords) {
  ThreadState* thread = ThreadOfCompilation(arguments);
  if (thread == nullptr || keywords == nullptr) return None();
  char name[256];
  snprintf(name, sizeof name, "%s%s", kXlaCompiles, TextOf(g_python_api.DictGetItem(keywords, "fun_name")));
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
  Ref arguments(g_python_api.NewTuple(1));
  if (!add || !listener || !arguments) return false;
  g_python_api.TupleSetItem(arguments.get(), 0, listener.Release());
  return static_cast<bool>(Ref(g_python_api.Call(add.get(), arguments.get(), nullptr)));
}

}  // namespace

PyObject* JaxPrograms() {
  Ref backends(AttributeOfModule("jax._src.xla_bridge", "_backends"));
  Ref clients(backends ? g_python_api.DictValues(backends.get()) : nullptr);
  PyObject* all = nullptr;
  for (ptrdiff_t i = 0; clients && i < g_python_api.ListSize(clients.get()); ++i) {
    Ref get_live(g_python_api.GetAttrString(g_python_api.ListGetItem(clients.get(), i), "live_executables"));
    Ref live(CallWithout(get_live));
    if (all == nullptr)
      all = live.Release();
    else if (live)
      Ref(g_python_api.Append(all, live.get()));
  }
  return all;
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
    programs = Ref(JaxPrograms()).Release();
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

void ForgetJaxPrograms() { memset(&g_seen, 0, sizeof g_seen); }

// The JAX tap's listeners of jax.monitoring: each compilation by XLA is a scope of the thread that waits for it.
// Thread: the program's, with the GIL, when a function is compiled; ListenToJaxCompilations: dlhook-jax.
void ListenToJaxCompilations() {
  static bool is_listening = false;  // a forked child inherits the lists of listeners
  static PyMethodDef begin = WithKeywordsDefinition("compilation_begins", &OnBegin);
  static PyMethodDef end = WithKeywordsDefinition("compilation_ends", &OnEnd);
  if (is_listening) return;
  is_listening = true;
  if (Listen("register_event_duration_secs_listener", &end)) Listen("register_scalar_listener", &begin);
}

}  // namespace dlhook::inline tap
