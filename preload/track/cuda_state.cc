#include "preload/track/cuda_state.h"

#include "preload/base/own_pages.h"
#include "preload/base/spin_lock.h"
#include "preload/format/session.h"
#include "preload/link/library_api.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"

namespace dlhook::inline track {
namespace {

using IsCapturing = int (*)(const void* stream, int* status);

struct CaptureApi : FunctionTable {
  using FunctionTable::FunctionTable;
  IsCapturing is_capturing = Find("cudaStreamIsCapturing", "cuStreamIsCapturing");
};

// From the library through which the last capture was begun.
std::atomic<IsCapturing> g_is_capturing{nullptr};

// The first of them may be the first hooked call of the process.
void Switch(bool record) {
  if (GetConfig().start != StartMode::kProfiler) return;
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) thread = AttachThread(GetConfig().families);
  if (thread != nullptr) SetRecording(record, thread->session);
}

}  // namespace

std::atomic<int32_t> g_open_captures{0};

void TrackBeginCapture(const BeginCaptureArgs& args) {
  if (args.status != 0) return;
  const IsCapturing is_capturing = ApiOf<CaptureApi>(args.real).is_capturing;
  if (is_capturing != nullptr) g_is_capturing.store(is_capturing, std::memory_order_release);
  g_open_captures.fetch_add(1, std::memory_order_relaxed);
}

void TrackEndCapture(const EndCaptureArgs& args) {
  // A capture has also ended if it was invalidated (901) or left work unjoined (904). Other errors mean that there was
  // none on this stream; it may continue on another. A count that is too high costs one query per call, one too low
  // loses captures.
  constexpr int32_t kInvalidated = 901;
  constexpr int32_t kUnjoined = 904;
  if (args.status != 0 && args.status != kInvalidated && args.status != kUnjoined) return;
  int32_t open = g_open_captures.load(std::memory_order_relaxed);
  while (open > 0 && !g_open_captures.compare_exchange_weak(open, open - 1, std::memory_order_relaxed)) {
  }
}

bool StreamOfHandle(GetStream StreamApi::*getter, const void* handle, const void* real, const void** stream) {
  return handle != nullptr && Query(ApiOf<StreamApi>(real).*getter, handle, stream);
}

bool AskWhetherCaptured(const void* stream) {
  // The legacy stream (null or handle 1) can't be captured; a query about it would be an error that the program might
  // see (cudaErrorStreamCaptureImplicit).
  if (reinterpret_cast<uintptr_t>(stream) <= 1) return false;
  int status = 0;
  return Query(g_is_capturing.load(std::memory_order_acquire), stream, &status) && status == 1;
}

// With DLHOOK_START=profiler they start and stop recording in their process, as with `nsys profile
// --capture-range=cudaProfilerApi`. Otherwise they mean nothing, so that nothing is lost. Whatever a library without a
// profiler answers: the program means it.
void TrackProfilerStart(const ProfilerStartArgs&) { Switch(true); }
void TrackProfilerStop(const ProfilerStopArgs&) { Switch(false); }

// An open-addressing table of handles. Readers take no lock: an entry's key is published after its name, and a table
// that has become too small is replaced and left in place (each is half the size of the next).

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

struct FunctionNameApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*get_name)(const char** name, const void* function) = Find("cuFuncGetName");
};

// Asks the driver about a handle that no hook has seen; also remembers that it is unknown.
Entry* AskForName(const void* function, const void* real) {
  const char* name = nullptr;
  bool known = Query(ApiOf<FunctionNameApi>(real).get_name, &name, function) && name != nullptr;
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

// The name is in the fat binary's data, valid as long as its library is loaded.
void TrackRegisterFunction(const RegisterFunctionArgs& args) {
  Remember(args.host_function, args.device_name, false);
  // Another library may have been loaded at the same place: the same two addresses, another name.
  if (Entry* entry = Find(g_table.load(std::memory_order_acquire), args.host_function)) {
    entry->definition.store(0, std::memory_order_relaxed);
  }
}

// A new handle for a function that already has one.
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

namespace {

struct PointerApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*runtime_attributes)(void* attributes, const void* address) = Find("cudaPointerGetAttributes");
  int (*driver_attribute)(void* data, int attribute, uint64_t address) = Find("cuPointerGetAttribute");
  int (*runtime_version)(int* version) = Find("cudaRuntimeGetVersion");
  bool can_ask = CanAsk();

 private:
  // Before CUDA 11 a query about pageable memory is an error that the program would see in cudaGetLastError.
  constexpr bool CanAsk() const {
    int version = 0;
    return driver_attribute != nullptr || (runtime_attributes != nullptr && runtime_version != nullptr &&
                                           runtime_version(&version) == 0 && version >= 11000);
  }
};

std::atomic<uint32_t> g_generation{1};

// cudaPointerAttributes begins with the type in every version; its size is 24 bytes up to CUDA 12, 88 in CUDA 13.
struct RuntimeAttributes {
  int32_t type;  // cudaMemoryType: unregistered 0, host 1, device 2, managed 3
  char rest[252];
};
constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: host 1, device 2, array 3, unified 4
constexpr int kIsManaged = 8;   // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr int kErrorInvalidValue = 1;

HostMemory AskRuntime(const PointerApi& api, const void* address) {
  RuntimeAttributes attributes = {};
  if (api.runtime_attributes(&attributes, address) != 0) return HostMemory::kUnknown;
  constexpr HostMemory kMemories[] = {HostMemory::kPageable, HostMemory::kPinned, HostMemory::kNone,
                                      HostMemory::kManaged};
  return attributes.type >= 0 && attributes.type <= 3 ? kMemories[attributes.type] : HostMemory::kUnknown;
}

HostMemory AskDriver(const PointerApi& api, const void* address) {
  uint64_t number = reinterpret_cast<uint64_t>(address);
  uint32_t managed = 0;
  if (api.driver_attribute(&managed, kIsManaged, number) == 0 && managed != 0) return HostMemory::kManaged;
  uint32_t type = 0;
  int status = api.driver_attribute(&type, kMemoryType, number);
  if (status == kErrorInvalidValue) return HostMemory::kPageable;  // an address unknown to CUDA
  if (status != 0) return HostMemory::kUnknown;
  return type == 1 ? HostMemory::kPinned : type == 2 ? HostMemory::kNone : HostMemory::kUnknown;
}

HostMemory AskDriver(const void* address, const void* real) {
  const PointerApi& api = ApiOf<PointerApi>(real);
  if (!api.can_ask) return HostMemory::kUnknown;
  return api.runtime_attributes != nullptr ? AskRuntime(api, address) : AskDriver(api, address);
}

// A thread's answers: sets of four, so that a few buffers in use do not evict each other.
constexpr uint32_t kWays = 4;

// Replaces the oldest answer of the set.
__attribute__((noinline)) HostMemory AskAndKeep(MemoryAnswer* set, uint32_t generation, const void* address,
                                                const void* real) {
  for (uint32_t i = kWays - 1; i > 0; --i) set[i] = set[i - 1];
  set[0] = {reinterpret_cast<uint64_t>(address), generation, AskDriver(address, real)};
  return set[0].memory;
}

}  // namespace

HostMemory HostMemoryAt(const void* address, const void* real) {
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr) return AskDriver(address, real);
  uint64_t number = reinterpret_cast<uint64_t>(address);
  uint32_t generation = g_generation.load(std::memory_order_relaxed);
  static_assert(sizeof thread->memory_answers / sizeof *thread->memory_answers == 16 * kWays);
  MemoryAnswer* set = thread->memory_answers + ((number * 0x9e3779b97f4a7c15u) >> 60) * kWays;
  for (uint32_t i = 0; i < kWays; ++i) {
    if (set[i].address == number && set[i].generation == generation) return set[i].memory;
  }
  return AskAndKeep(set, generation, address, real);
}

void TrackMemoryChange(const MemoryChangeArgs& args) {
  if (args.status == 0) g_generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace dlhook::inline track
