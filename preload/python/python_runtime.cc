#include "preload/python/python_runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"
#include "preload/python/python_lines.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline python {

std::atomic<PythonState> g_python_state{PythonState::kUnknown};
PythonRuntime g_python;

namespace {

constexpr uint32_t kMaxRuntimes = 4;

struct Candidates {
  void* scopes[kMaxRuntimes];
  const void* versions[kMaxRuntimes];  // Py_GetVersion: distinguishes runtimes
  uint32_t count;
};

struct LibraryPaths {
  char paths[kMaxRuntimes][512];
  uint32_t count;
};

// `scope` may be closed afterwards: Pythons are never unloaded.
void AddCandidate(void* scope, Candidates* candidates) {
  const void* version = RealDlsym(scope, "Py_GetVersion");
  auto is_initialized = reinterpret_cast<int (*)()>(RealDlsym(scope, "Py_IsInitialized"));
  if (version == nullptr || is_initialized == nullptr || is_initialized() == 0) return;
  for (uint32_t i = 0; i < candidates->count; ++i) {
    if (candidates->versions[i] == version) return;
  }
  if (candidates->count == kMaxRuntimes) return;
  candidates->scopes[candidates->count] = scope;
  candidates->versions[candidates->count++] = version;
}

int NotePythonLibrary(dl_phdr_info* info, size_t, void* argument) {
  auto found = static_cast<LibraryPaths*>(argument);
  const char* name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const char* base = strrchr(name, '/');
  bool is_python = strncmp(base == nullptr ? name : base + 1, "libpython", 9) == 0;
  if (is_python && found->count < kMaxRuntimes && strlen(name) < sizeof found->paths[0]) {
    strcpy(found->paths[found->count++], name);
  }
  return 0;
}

// In the global scope, or loaded privately (RTLD_LOCAL) by a program.
void CollectCandidates(Candidates* candidates) {
  *candidates = {};
  AddCandidate(RTLD_DEFAULT, candidates);
  static LibraryPaths found;  // one searcher at a time
  found.count = 0;
  dl_iterate_phdr(&NotePythonLibrary, &found);
  for (uint32_t i = 0; i < found.count; ++i) {
    void* handle = dlopen(found.paths[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    AddCandidate(handle, candidates);
    RealDlclose(handle);
  }
}

template <typename Function>
bool Take(void* scope, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(RealDlsym(scope, name));
  return *function != nullptr;
}

bool TakeSymbols(void* scope, PythonRuntime* python) {
  python->scope = scope;
  bool complete = Take(scope, "PyCode_Type", &python->code_type) && Take(scope, "PyCell_Type", &python->cell_type) &&
                  Take(scope, "PyGILState_GetThisThreadState", &python->thread_state) &&
                  Take(scope, "PyInterpreterState_Head", &python->newest_interpreter) &&
                  Take(scope, "PyInterpreterState_Main", &python->main_interpreter);
  return complete && (Take(scope, "Py_IsFinalizing", &python->is_finalizing) ||
                      Take(scope, "_Py_IsFinalizing", &python->is_finalizing));
}

PythonState Examine(void* scope) {
  auto version_function = reinterpret_cast<const char* (*)()>(RealDlsym(scope, "Py_GetVersion"));
  const char* version = version_function();
  const char* reason = "";
  char sentence[120];
  int length = static_cast<int>(strcspn(version, " "));
  bool known = LayoutOfPython(version, RealDlsym(scope, "_PyRuntime"), &g_python.layout, &reason);
  bool debug_build = RealDlsym(scope, "_Py_NegativeRefcount") != nullptr;
  if (known && debug_build) reason = "debug builds of Python are not supported";
  known = known && !debug_build && TakeSymbols(scope, &g_python);
  if (known && !LayoutAgrees(g_python.layout, g_python.code_type, RealDlsym(scope, "PyType_Type"))) {
    known = false;
    reason = "its objects are not laid out as in CPython of this version";
  }
  if (known) {
    snprintf(sentence, sizeof sentence, "Python %.*s", length, version);
    ReportCapability("python-frames", "", CapabilityState::kOn, sentence);
    return PythonState::kOn;
  }
  if (*reason == '\0') reason = "a symbol is missing";
  snprintf(sentence, sizeof sentence, "Python %.*s: %s", length < 24 ? length : 24, version, reason);
  ReportCapability("python-frames", "", CapabilityState::kRefused, sentence);
  return PythonState::kOff;
}

PythonState Search() {
  Candidates candidates;
  CollectCandidates(&candidates);
  if (candidates.count == 0) return PythonState::kAbsent;
  if (candidates.count == 1) return Examine(candidates.scopes[0]);
  ReportCapability("python-frames", "", CapabilityState::kRefused, "several Python runtimes in one process");
  return PythonState::kOff;
}

}  // namespace

void FindPython() {
  PythonState state = g_python_state.load();
  if (state != PythonState::kUnknown && state != PythonState::kAbsent) return;
  if (!g_python_state.compare_exchange_strong(state, PythonState::kSearching)) return;
  int saved_errno = errno;
  g_python_state.store(Search(), std::memory_order_release);
  errno = saved_errno;
}

void* PythonSymbol(const char* name) { return RealDlsym(g_python.scope, name); }

size_t PythonText(const PythonRuntime& python, const void* string, char* text, size_t capacity) {
  if (string == nullptr) return 0;
  uint32_t kind = TextBits(python, string) & 7;
  bool is_compact = IsCompactText(python, string);
  bool is_ascii = (TextBits(python, string) & 16) != 0;
  if (kind != 1 && kind != 2 && kind != 4) return 0;
  size_t header = is_compact && is_ascii ? python.layout.ascii_bytes : python.layout.compact_bytes;
  const void* data = is_compact ? static_cast<const char*>(string) + header : ReadAt<const void*>(string, header);
  if (data == nullptr) return 0;
  return EncodeUtf8(data, ReadAt<size_t>(string, kPyStringLength), kind, text, capacity);
}

}  // namespace dlhook::inline python
