// The results of dlsym and dlvsym for hooked names, and dlclose.
#include "preload/link/dlsym.h"

#include "preload/base/dynamic_tables.h"
#include "preload/base/entry.h"
#include "preload/base/libc_functions.h"
#include "preload/base/loader_error.h"
#include "preload/base/spin_lock.h"
#include "preload/format/folders.h"
#include "preload/link/library_api.h"
#include "preload/runtime/registry.h"

extern "C" {
void* (*dlhook_real_dlsym)(void* handle, const char* name) = nullptr;
void* (*dlhook_real_dlvsym)(void* handle, const char* name, const char* version) = nullptr;

// dlsym.S: kThunks stubs of kThunkBytes each, and the table they read.
struct ThunkEntry {
  void* real;
  void* entry;  // the wrapper's second (base/entry.h)
};
constexpr uint32_t kThunks = 2048;
constexpr uint32_t kThunkBytes = 32;
extern ThunkEntry dlhook_thunk_table[kThunks] __attribute__((visibility("hidden")));
extern char dlhook_thunks[] __attribute__((visibility("hidden")));
}

// The bounds of the section, from the linker.
extern "C" {
extern const dlhook::LookedUp __start_dlhook_looked_up[] __attribute__((visibility("hidden")));
extern const dlhook::LookedUp __stop_dlhook_looked_up[] __attribute__((visibility("hidden")));
}

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));  // of the shim, from the linker
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace dlhook::inline link {
namespace {

constexpr uintptr_t kPage = 4096;

const link_map* OwnObject() {
  static const link_map* own = ObjectOfSlow(reinterpret_cast<const void*>(&HideLaterShims));
  return own;
}

bool IsShim(const link_map* object) {
  return object == OwnObject() ||
         strcmp(BaseName(object->l_name), "libdlhook.so") == 0;  // the own file may be called anything
}

const link_map* FirstShim() {
  const link_map* own = OwnObject();
  const link_map* first = own;
  for (const link_map* map = own; map != nullptr; map = map->l_prev) {
    if (IsShim(map)) first = map;
  }
  return first;
}

// A GNU hash table: four words, as many words of 64 bits as the third says (one that is empty finds no symbol), buckets. It is in a
// segment that is only read.
void Hide(const link_map* object) {
  const uint32_t* table = DynamicTables(object).gnu_hash;
  if (table == nullptr) return;
  auto begin = reinterpret_cast<uintptr_t>(table + 4);
  auto end = begin + uintptr_t{table[2]} * sizeof(uint64_t);
  auto page = reinterpret_cast<void*>(begin & ~(kPage - 1));
  size_t bytes = end - reinterpret_cast<uintptr_t>(page);
  if (mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0) return;
  for (uintptr_t word = begin; word < end; word += sizeof(uint64_t))
    __atomic_store_n(reinterpret_cast<uint64_t*>(word), 0, __ATOMIC_RELAXED);
  mprotect(page, bytes, PROT_READ);
}

SpinLock g_thunks_lock;
std::atomic<uint32_t> g_thunk_count{0};

void* FindThunk(void* real, void* wrapper) {
  const void* second = static_cast<char*>(wrapper) + kSecondEntry;
  uint32_t count = g_thunk_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const ThunkEntry& entry = dlhook_thunk_table[i];
    if (entry.real == real && entry.entry == second) return dlhook_thunks + i * kThunkBytes;
  }
  return nullptr;
}

// A thunk for (wrapper, real), or the real function itself if the pool is exhausted (counted: its calls are not seen).
void* ThunkFor(void* wrapper, void* real) {
  void* thunk = FindThunk(real, wrapper);
  if (thunk != nullptr) return thunk;
  SpinLockHolder holder(&g_thunks_lock);
  thunk = FindThunk(real, wrapper);
  if (thunk != nullptr) return thunk;
  uint32_t index = g_thunk_count.load(std::memory_order_relaxed);
  if (index == kThunks) {
    CountPlainPointer();
    return real;
  }
  dlhook_thunk_table[index] = {real, static_cast<char*>(wrapper) + kSecondEntry};
  g_thunk_count.store(index + 1, std::memory_order_release);
  return dlhook_thunks + index * kThunkBytes;
}

// RTLD_NEXT of a caller that precedes us in the search order (the main program, an earlier preload) would find us; from
// one that follows us it would not, and glibc must see its return address.
bool StandsBeforeUs(const link_map* caller) { return caller != OwnObject() && IsLoadedBefore(caller, OwnObject()); }

// A request by the program. With a version: by dlvsym.
struct Wanted {
  void* handle;
  const char* name;
  const char* version;
  void* caller;
};

// glibc's result for `handle` when asked from the shim; leaves its error pending.
void* Ask(const Wanted& wanted, void* handle) {
  if (wanted.version != nullptr) return dlhook_real_dlvsym(handle, wanted.name, wanted.version);
  return RealDlsymPointer()(handle, wanted.name);
}

// The value that the program would get without us, or null.
void* WithoutUs(const Wanted& wanted, void* wrapper) {
  KeptLoaderError kept;
  void* found = wanted.handle == RTLD_NEXT ? wrapper : Ask(wanted, wanted.handle);
  bool is_beyond_us = found == nullptr && wanted.handle == RTLD_DEFAULT;
  if (found != wrapper && !is_beyond_us) return found;
  // We are first in the global scope: what follows us is the result.
  found = Ask(wanted, RTLD_NEXT);
  if (found != nullptr || wanted.handle != RTLD_DEFAULT) return found;
  const link_map* object = ObjectOf(wanted.caller);  // RTLD_DEFAULT ends with the caller's own scope
  found = FindInObject(wanted.name, wanted.version, object);
  return found == wrapper ? nullptr : found;
}

const char* NameInErrors(const link_map* object) {
  return object == nullptr || object->l_name[0] == '\0' ? program_invocation_name : object->l_name;
}

// Leaves the error that the program would find: for the caller's scope, with the caller's name.
void LeaveError(const Wanted& wanted, void* wrapper, const link_map* caller) {
  if (wanted.handle != RTLD_NEXT && wanted.handle != RTLD_DEFAULT) {
    if (Ask(wanted, wanted.handle) != wrapper) return;
    caller = nullptr;  // dlopen(NULL)
  }
  Ask(wanted, RTLD_NEXT);
  RenameInLoaderError(NameInErrors(OwnObject()), NameInErrors(caller));
}

// Look-ups by the vendor's libraries in each other: libcudnn.so in its parts, engines in libcublasLt, the runtime in
// the driver. Each such call happens inside one that is already recorded, or would be seen twice. Only the path to the
// driver from a runtime linked into such a library is hooked: it is the only view of what cuBLAS and cuDNN launch.
bool IsInnerLookup(const link_map* caller, const char* name) {
  if (!IsVendorObject(caller)) return false;
  bool to_driver = strncmp(name, "cuGetProcAddress", 16) == 0;
  return !to_driver;
}

// Our function for `name`: a hook of the tables, or a hand-written one. Null: none.
void* WrapperOf(const char* name) {
  int hook = FindHook(name);
  if (hook >= 0) return kHookLinks[hook].wrapper;
  for (const LookedUp* known = __start_dlhook_looked_up; known != __stop_dlhook_looked_up; ++known) {
    if (known->name[0] == name[0] && strcmp(known->name, name) == 0) return known->wrapper;
  }
  return nullptr;
}

void* WrappedFor(void* wrapper, const char* name, void* real, const link_map* caller) {
  void* thunk = FindThunk(real, wrapper);
  if (thunk != nullptr) return thunk;
  if (ObjectOf(real) == OwnObject()) return real;  // already a hook: a library not bound to itself
  ReportBinding(caller, ObjectOf(real), name);
  return ThunkFor(wrapper, real);
}

using Dladdr = int (*)(const void*, Dl_info*);
using Dladdr1 = int (*)(const void*, Dl_info*, void**, int);

// Not in the first call, which may be made by a signal handler.
std::atomic<Dladdr> g_dladdr{nullptr};
std::atomic<Dladdr1> g_dladdr1{nullptr};

__attribute__((constructor)) void FindFunctions() {
  g_dladdr1.store(reinterpret_cast<Dladdr1>(RealDlsym(RTLD_NEXT, "dladdr1")), std::memory_order_relaxed);
  g_dladdr.store(reinterpret_cast<Dladdr>(RealDlsym(RTLD_NEXT, "dladdr")), std::memory_order_release);
}

const void* BehindExport(const void* address, void* caller) {
  Dl_info own;
  bool is_export = g_dladdr.load(std::memory_order_relaxed)(address, &own) != 0 && own.dli_saddr == address;
  if (!is_export || own.dli_sname == nullptr) return address;
  int hook = FindHook(own.dli_sname);
  const void* real = FindReal(own.dli_sname, hook < 0 ? nullptr : kHookLinks[hook].sonames, own.dli_saddr, caller);
  return real == nullptr ? address : real;
}

const void* BehindUs(const void* address, void* caller) {
  if (__builtin_expect(address < __ehdr_start || address >= _end, 1)) return address;
  const void* real = BehindThunk(address);
  return real != nullptr ? real : BehindExport(address, caller);
}

}  // namespace

// Finds other shims by the name of their file.
void HideLaterShims() {
  const link_map* first = FirstShim();
  for (const link_map* map = first == nullptr ? nullptr : first->l_next; map != nullptr; map = map->l_next) {
    if (IsShim(map)) Hide(map);
  }
}

bool IsLaterShim() { return FirstShim() != OwnObject(); }

const char* OwnPath() { return OwnObject() == nullptr ? "" : OwnObject()->l_name; }

// The shim's calls of the dl family. They are made only here (and by the exported dlsym, dlvsym and dlclose, for the
// program).
void* RealDlsym(void* handle, const char* name) {
  KeptLoaderError kept;
  return RealDlsymPointer()(handle, name);
}

void* RealDlvsym(void* handle, const char* name, const char* version) {
  KeptLoaderError kept;
  return dlhook_libc_dlvsym(handle, name, version);
}

int RealDlclose(void* handle) {
  KeptLoaderError kept;
  return dlhook_libc_dlclose(handle);
}

void* HookFor(HookId hook, void* real, const link_map* caller) {
  return WrappedFor(kHookLinks[hook].wrapper, kHookNames[hook].name, real, caller);
}

const void* BehindThunk(const void* address) {
  auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(dlhook_thunks);
  bool is_thunk = offset % kThunkBytes == 0 && offset / kThunkBytes < g_thunk_count.load(std::memory_order_acquire);
  return is_thunk ? dlhook_thunk_table[offset / kThunkBytes].real : nullptr;
}

Dlsym RealDlsymPointer() {
  if (__builtin_expect(dlhook_real_dlsym == nullptr, 0)) {
    HideLaterShims();
    auto real = RealDlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    dlhook_real_dlvsym = reinterpret_cast<decltype(dlhook_real_dlvsym)>(RealDlvsym(RTLD_NEXT, "dlvsym", "GLIBC_2.2.5"));
    __atomic_store_n(&dlhook_real_dlsym, reinterpret_cast<Dlsym>(real), __ATOMIC_RELEASE);
  }
  return dlhook_real_dlsym;
}

}  // namespace dlhook::inline link

extern "C" DlsymAnswer dlhook_dlsym_answer(void* handle, const char* name, void* caller, const char* version) {
  using namespace dlhook;
  RealDlsymPointer();
  void* wrapper = name == nullptr ? nullptr : WrapperOf(name);
  if (wrapper == nullptr) return {0, nullptr};
  const link_map* object = ObjectOf(caller);
  if (object == OwnObject()) return {0, nullptr};
  if (handle == RTLD_NEXT && !StandsBeforeUs(object)) return {0, nullptr};
  if (IsInnerLookup(object, name)) return {0, nullptr};
  const Wanted wanted = {handle, name, version, caller};
  void* real = WithoutUs(wanted, wrapper);
  if (real == nullptr) {
    LeaveError(wanted, wrapper, object);
    return {1, nullptr};
  }
  ErrnoKeeper keeper;
  void* answer = WrappedFor(wrapper, name, real, object);
  ClearLoaderError();
  return {1, answer};
}

// Bindings to unmapped functions must not be used again.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  static std::atomic<int (*)(void*)> known{nullptr};
  int result = dlhook::RealOf("dlclose", &known)(handle);
  dlhook::g_binding_generation.fetch_add(1, std::memory_order_relaxed);
  return result;
}

// Replaces the C library's for the whole shim.
extern "C" __attribute__((visibility("hidden"))) void* dlopen(const char* path, int mode) noexcept {
  dlhook::KeptLoaderError kept;
  return dlhook_libc_dlopen(path, mode);
}

// The interposed dladdr and dladdr1: for one of our functions that replaces a library's, they describe the function
// behind it. NumPy, R and others print the name of their BLAS with these. Addresses inside functions, as in backtraces,
// are not changed. Thread: any application thread, also in signal handlers; only addresses in the shim are examined.
extern "C" {

DLHOOK_EXPORT int dladdr(const void* address, Dl_info* info) noexcept {
  using namespace dlhook;
  if (__builtin_expect(g_dladdr.load(std::memory_order_relaxed) == nullptr, 0)) FindFunctions();
  return g_dladdr.load(std::memory_order_relaxed)(BehindUs(address, __builtin_return_address(0)), info);
}

DLHOOK_EXPORT int dladdr1(const void* address, Dl_info* info, void** more, int flags) noexcept {
  using namespace dlhook;
  if (__builtin_expect(g_dladdr.load(std::memory_order_relaxed) == nullptr, 0)) FindFunctions();
  return g_dladdr1.load(std::memory_order_relaxed)(BehindUs(address, __builtin_return_address(0)), info, more, flags);
}

}  // extern "C"
