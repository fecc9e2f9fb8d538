// An open-addressing table of handles. Readers take no lock: an entry's key is published after its name, and a table
// that has become too small is replaced and left in place (each is half the size of the next).
#include "preload/track/kernels.h"

#include "preload/base/own_pages.h"
#include "preload/base/spin_lock.h"
#include "preload/link/library_api.h"
#include "preload/runtime/definitions.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline track {
namespace {

struct Entry {
  std::atomic<const void*> function;  // null: free
  std::atomic<const char*> name;
  std::atomic<bool> owned;           // the name is a copy made here, not in a library that may be unloaded
  std::atomic<uint64_t> definition;  // pid of the session << 32 | number; 0: not defined yet
};

struct Table {
  uint64_t capacity;  // power of two
  uint64_t count;
  Entry* entries() { return reinterpret_cast<Entry*>(this + 1); }
};

std::atomic<Table*> g_table{nullptr};
SpinLock g_lock;
char* g_names = nullptr;  // bump memory for copied names
size_t g_names_left = 0;

uint64_t HashOfFunction(const void* function) {
  return (reinterpret_cast<uint64_t>(function) * 0x9e3779b97f4a7c15u) >> 20;
}

Entry* Find(Table* table, const void* function) {
  if (table == nullptr) return nullptr;
  for (uint64_t i = HashOfFunction(function);; ++i) {
    Entry& entry = table->entries()[i & (table->capacity - 1)];
    const void* found = entry.function.load(std::memory_order_acquire);
    if (found == function) return &entry;
    if (found == nullptr) return nullptr;
  }
}

// Under the lock; the table has room.
void Insert(Table* table, const void* function, const char* name, bool owned, uint64_t definition) {
  for (uint64_t i = HashOfFunction(function);; ++i) {
    Entry& entry = table->entries()[i & (table->capacity - 1)];
    const void* found = entry.function.load(std::memory_order_relaxed);
    if (found != nullptr && found != function) continue;
    if (found == function && entry.name.load(std::memory_order_relaxed) == name) return;
    entry.definition.store(definition, std::memory_order_relaxed);
    entry.name.store(name, std::memory_order_relaxed);
    entry.owned.store(owned, std::memory_order_relaxed);
    entry.function.store(function, std::memory_order_release);
    if (found == nullptr) ++table->count;
    return;
  }
}

// Under the lock. The current table with room for one more, or null if out of memory.
Table* Roomy() {
  Table* table = g_table.load(std::memory_order_relaxed);
  if (table != nullptr && table->count < table->capacity / 2) return table;
  uint64_t capacity = table == nullptr ? 16384 : table->capacity * 2;
  auto larger = static_cast<Table*>(MapOwnPages(sizeof(Table) + capacity * sizeof(Entry)));
  if (larger == nullptr) return nullptr;
  larger->capacity = capacity;
  for (uint64_t i = 0; table != nullptr && i < table->capacity; ++i) {
    Entry& entry = table->entries()[i];
    const void* function = entry.function.load(std::memory_order_relaxed);
    if (function == nullptr) continue;
    Insert(larger, function, entry.name.load(std::memory_order_relaxed), entry.owned.load(std::memory_order_relaxed),
           entry.definition.load(std::memory_order_relaxed));
  }
  g_table.store(larger, std::memory_order_release);
  return larger;
}

void Remember(const void* function, const char* name, bool owned) {
  if (function == nullptr || name == nullptr) return;
  SpinLockHolder holder(&g_lock);
  Table* table = Roomy();
  if (table != nullptr) Insert(table, function, name, owned, 0);
}

// Null if out of memory.
const char* CopyName(const char* name) {
  size_t size = strnlen(name, kMaxDefinitionBytes - 1) + 1;
  SpinLockHolder holder(&g_lock);
  if (size > g_names_left) {
    size_t bytes = size > (256 << 10) ? size : 256 << 10;
    auto memory = static_cast<char*>(MapOwnPages(bytes));
    if (memory == nullptr) return nullptr;
    g_names = memory;
    g_names_left = bytes;
  }
  char* copy = g_names;
  memcpy(copy, name, size - 1);
  copy[size - 1] = '\0';
  g_names += size;
  g_names_left -= size;
  return copy;
}

struct FunctionNameApi {
  int (*get_name)(const char** name, const void* function);
  void Load(const void* real) {
    get_name = reinterpret_cast<int (*)(const char**, const void*)>(LibraryFunction(real, "cuFuncGetName"));
  }
};

// Asks the driver about a handle that no hook has seen; also remembers that it is unknown.
Entry* AskForName(const void* function, const void* real) {
  const FunctionNameApi* api = ApiOf<FunctionNameApi>(real);
  const char* name = nullptr;
  bool known = api != nullptr && api->get_name != nullptr && api->get_name(&name, function) == 0 && name != nullptr;
  const char* copy = known ? CopyName(name) : "";
  Remember(function, copy, true);
  return Find(g_table.load(std::memory_order_acquire), function);
}

// Outlined: inlining it would make a launch save registers on every call.
__attribute__((noinline, cold)) uint32_t DefineKernel(Entry* entry, const void* function, const void* real,
                                                      uint64_t session) {
  if (entry == nullptr) entry = AskForName(function, real);
  if (entry == nullptr) return 0;
  const char* name = entry->name.load(std::memory_order_relaxed);
  size_t size = strlen(name);
  uint32_t number = size == 0 ? 0 : Define(DefinitionKind::kKernel, name, size);
  entry->definition.store(session << 32 | number, std::memory_order_relaxed);
  return number;
}

}  // namespace

void TrackRegisterFunction(const RegisterFunctionArgs& args) {
  Remember(args.host_function, args.device_name, false);
  // Another library may have been loaded at the same place: the same two addresses, another name.
  if (Entry* entry = Find(g_table.load(std::memory_order_acquire), args.host_function)) {
    entry->definition.store(0, std::memory_order_relaxed);
  }
}

void TrackKernelAlias(const KernelAliasArgs& args) {
  const void* function = args.host_function != nullptr ? args.host_function : args.kernel;
  if (args.status != 0 || args.out == nullptr || function == nullptr || *args.out == function) return;
  const Entry* entry = Find(g_table.load(std::memory_order_acquire), function);
  if (entry != nullptr)
    Remember(*args.out, entry->name.load(std::memory_order_relaxed), entry->owned.load(std::memory_order_relaxed));
}

void TrackKernelByName(const KernelByNameArgs& args) {
  if (args.status != 0 || args.out == nullptr || args.name == nullptr) return;
  const Entry* known = Find(g_table.load(std::memory_order_acquire), *args.out);
  bool comparable = known != nullptr && known->owned.load(std::memory_order_relaxed);
  if (comparable && strcmp(known->name.load(std::memory_order_relaxed), args.name) == 0) return;
  Remember(*args.out, CopyName(args.name), true);
}

uint32_t KernelDefinition(const void* function, const void* real) {
  const ThreadState* thread = dlhook_thread;
  if (function == nullptr || thread == nullptr) return 0;
  Entry* entry = Find(g_table.load(std::memory_order_acquire), function);
  uint64_t session = thread->session->pid;
  uint64_t definition = entry == nullptr ? 0 : entry->definition.load(std::memory_order_relaxed);
  if (__builtin_expect(definition >> 32 == session, 1)) return static_cast<uint32_t>(definition);
  return DefineKernel(entry, function, real, session);
}

}  // namespace dlhook::inline track
