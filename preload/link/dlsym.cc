// The results of dlsym and dlvsym for hooked names, and dlclose.
#include "preload/link/dlsym.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include <atomic>

#include "preload/base/entry.h"
#include "preload/base/loader_error.h"
#include "preload/base/spin_lock.h"
#include "preload/link/driver_entry.h"
#include "preload/link/other_shims.h"
#include "preload/link/resolver.h"
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

namespace dlhook::inline link {
namespace {

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

const link_map* OwnObject() {
  static const link_map* own = ObjectOf(reinterpret_cast<const void*>(&RealDlsymPointer));
  return own;
}

// RTLD_NEXT of a caller that precedes us in the search order (the main program, an earlier preload) would find us; from
// one that follows us it would not, and glibc must see its return address.
bool StandsBeforeUs(const link_map* caller) {
  for (const link_map* map = caller; map != nullptr; map = map->l_next) {
    if (map == OwnObject()) return caller != OwnObject();
  }
  return false;
}

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

}  // namespace

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
  int saved_errno = errno;
  void* answer = WrappedFor(wrapper, name, real, object);
  ClearLoaderError();
  errno = saved_errno;
  return {1, answer};
}

// Bindings to unmapped functions must not be used again.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  static std::atomic<int (*)(void*)> real{nullptr};
  auto call = real.load(std::memory_order_relaxed);
  if (call == nullptr) {
    call = reinterpret_cast<int (*)(void*)>(dlhook::RealDlsym(RTLD_NEXT, "dlclose"));
    real.store(call, std::memory_order_relaxed);
  }
  int result = call(handle);
  dlhook::g_binding_generation.fetch_add(1, std::memory_order_relaxed);
  return result;
}
