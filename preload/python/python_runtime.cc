#include "preload/python/python_runtime.h"

#include <algorithm>

#include "preload/base/dynamic_tables.h"
#include "preload/base/loaded_objects.h"
#include "preload/format/folders.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"
#include "preload/python/python_api.h"
#include "preload/runtime/registry.h"
#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline python {
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

// In the global scope, or loaded privately (RTLD_LOCAL) by a program.
void CollectCandidates(Candidates* candidates) {
  *candidates = {};
  AddCandidate(RTLD_DEFAULT, candidates);
  static LibraryPaths found;  // one searcher at a time
  found.count = 0;
  AnyLoadedObject([](const dl_phdr_info& info) {
    bool is_python = strncmp(BaseName(info.dlpi_name), "libpython", 9) == 0;
    if (is_python && found.count < kMaxRuntimes && strlen(info.dlpi_name) < sizeof found.paths[0])
      strcpy(found.paths[found.count++], info.dlpi_name);
    return false;
  });
  for (uint32_t i = 0; i < found.count; ++i) {
    void* handle = dlopen(found.paths[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    AddCandidate(handle, candidates);
    RealDlclose(handle);
  }
}

// Exported by `object` (a link_map) itself.
void* FindExported(void* object, const char* name) {
  auto map = static_cast<const link_map*>(object);
  const DynamicTables tables(map);
  // Numbers of buckets, of the first symbol, of words of the filter; its shift, the filter, buckets, chains.
  const uint32_t* table = tables.gnu_hash;
  if (table == nullptr || table[0] == 0) return nullptr;
  uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<uint8_t>(*at);
  const uint32_t* buckets = table + 4 + 2 * table[2];
  for (uint32_t i = buckets[hash % table[0]]; i >= table[1]; ++i) {
    const uint32_t chain = buckets[table[0] + i - table[1]];
    const ElfW(Sym)& symbol = tables.symbols[i];
    if ((chain | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF && strcmp(tables.strings + symbol.st_name, name) == 0)
      return reinterpret_cast<void*>(map->l_addr + symbol.st_value);
    if ((chain & 1) != 0) break;
  }
  return nullptr;
}

bool TakeSymbols(const SymbolScope& symbols, const PythonLayout& layout) {
  g_python_api = PythonApi(symbols);
  if (layout.minor < 12) g_python_api.AddCallForAnyThread = nullptr;  // takes other arguments
  g_python = PythonRuntime(symbols);
  g_python.layout = layout;
  return g_python.is_complete() && g_python.is_finalizing != nullptr;
}

// `is_last` false: another way to its symbols may find others.
PythonState Examine(const SymbolScope& symbols, bool is_last) {
  auto version_function = reinterpret_cast<const char* (*)()>(symbols("Py_GetVersion"));
  const char* version = version_function();
  PythonLayout layout;
  const char* reason = "";
  bool is_known = LayoutOfPython(version, symbols("_PyRuntime"), &layout, &reason);
  bool is_supported = is_known && symbols("_Py_NegativeRefcount") == nullptr;
  if (is_known && !is_supported) {
    reason = "debug builds of Python are not supported";
  } else if (is_supported && !TakeSymbols(symbols, layout)) {
    reason = "a symbol is missing";
  } else if (is_supported && !LayoutAgrees(layout, g_python.code_type, symbols("PyType_Type"))) {
    reason = "its objects are not laid out as in CPython of this version";
  }
  bool is_readable = *reason == '\0';
  if (!is_readable && is_supported && !is_last) return PythonState::kAbsent;
  char sentence[120];
  size_t length = std::min(strcspn(version, " "), size_t{24});
  snprintf(sentence, sizeof sentence, "Python %.*s%s%s", static_cast<int>(length), version, is_readable ? "" : ": ",
           reason);
  ReportCapability("python-frames", "", is_readable ? CapabilityState::kOn : CapabilityState::kRefused, sentence);
  return is_readable ? PythonState::kOn : PythonState::kOff;
}

PythonState Search() {
  Candidates candidates;
  CollectCandidates(&candidates);
  if (candidates.count == 0) return PythonState::kAbsent;
  if (candidates.count == 1) return Examine({&RealDlsym, candidates.scopes[0]}, true);
  ReportCapability("python-frames", "", CapabilityState::kRefused, "several Python runtimes in one process");
  return PythonState::kOff;
}

}  // namespace

std::atomic<PythonState> g_python_state{PythonState::kUnknown};
constinit PythonRuntime g_python;
constinit PythonApi g_python_api;

void FindPython() {
  PythonState state = g_python_state.load();
  if (state != PythonState::kUnknown && state != PythonState::kAbsent) return;
  if (!g_python_state.compare_exchange_strong(state, PythonState::kSearching)) return;
  ErrnoKeeper keeper;
  g_python_state.store(Search(), std::memory_order_release);
}

// A Python that can't be read in this way (its objects may have been copied into the program) is left to FindPython.
void FindPythonAt(uint64_t address) {
  static std::atomic<const void*> refused{nullptr};
  CodeObject object;
  PythonState state = PythonState::kAbsent;
  if (g_python_state.load() != state || !FindCodeObject(address, &object, false)) return;
  if (object.map == nullptr || object.map == refused.load()) return;
  const SymbolScope symbols = {&FindExported, const_cast<link_map*>(object.map)};
  auto is_initialized = reinterpret_cast<int (*)()>(symbols("Py_IsInitialized"));
  if (is_initialized == nullptr || symbols("Py_GetVersion") == nullptr || is_initialized() == 0) return;
  if (!g_python_state.compare_exchange_strong(state, PythonState::kSearching)) return;
  state = Examine(symbols, false);
  if (state == PythonState::kAbsent) refused.store(object.map);
  g_python_state.store(state, std::memory_order_release);
}

size_t PythonText(const PythonRuntime& python, const void* string, char* text, size_t capacity) {
  if (string == nullptr) return 0;
  const PythonString shape = PythonStringOf(python.layout, string);
  auto data = static_cast<const char*>(string) + shape.contents;
  if (!shape.is_compact) data = ReadAt<const char*>(data, 0);
  if (shape.kind == 0 || data == nullptr) return 0;
  return EncodeUtf8(data, shape.length, shape.kind, text, capacity);
}

}  // namespace dlhook::inline python
