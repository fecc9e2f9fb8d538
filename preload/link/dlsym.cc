// What dlsym answers for hooked names, and dlclose.
#include "preload/link/dlsym.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <atomic>

#include "preload/core/hook_table.h"
#include "preload/core/registry.h"
#include "preload/core/spin_lock.h"
#include "preload/gpu/cupti_hooks.h"
#include "preload/link/driver_entry.h"
#include "preload/link/resolver.h"

extern "C" {
void* (*dlhook_real_dlsym)(void* handle, const char* name) = nullptr;

// thunks.S: kThunks stubs of kThunkBytes each, and the table they read.
struct ThunkEntry {
  void* real;
  void* wrapper;
};
constexpr uint32_t kThunks = 2048;
constexpr uint32_t kThunkBytes = 32;
extern ThunkEntry dlhook_thunk_table[kThunks] __attribute__((visibility("hidden")));
extern char dlhook_thunks[] __attribute__((visibility("hidden")));
}

namespace dlhook {
namespace {

SpinLock g_thunks_lock;
std::atomic<uint32_t> g_thunk_count{0};

void* FindThunk(void* real, void* wrapper) {
  uint32_t count = g_thunk_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const ThunkEntry& entry = dlhook_thunk_table[i];
    if (entry.real == real && entry.wrapper == wrapper) return dlhook_thunks + i * kThunkBytes;
  }
  return nullptr;
}

// A thunk for (wrapper, real), or the real function itself when the pool is used up (counted: its calls are not seen).
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
  dlhook_thunk_table[index] = {real, wrapper};
  g_thunk_count.store(index + 1, std::memory_order_release);
  return dlhook_thunks + index * kThunkBytes;
}

const link_map* OwnObject() {
  static const link_map* own = ObjectOf(reinterpret_cast<const void*>(&InitRealDlsym));
  return own;
}

// RTLD_NEXT of a caller that stands before us in the search order (the main program, an earlier preload) would find us; one
// that stands behind us would not, and glibc must see its return address.
bool StandsBeforeUs(const link_map* caller) {
  for (const link_map* map = caller; map != nullptr; map = map->l_next) {
    if (map == OwnObject()) return caller != OwnObject();
  }
  return false;
}

// The value that the program would get without us, or null.
void* WithoutUs(void* handle, const char* name, void* wrapper, void* caller) {
  void* found = handle == RTLD_NEXT ? wrapper : dlhook_real_dlsym(handle, name);
  if (found != wrapper) return found;
  // We stand first in the global scope: what comes after us is the answer.
  found = dlhook_real_dlsym(RTLD_NEXT, name);
  if (found != nullptr || handle != RTLD_DEFAULT) return found;
  const link_map* object = ObjectOf(caller);  // RTLD_DEFAULT ends with the caller's own scope
  if (object == nullptr || object->l_name[0] == '\0') return nullptr;
  void* own = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (own == nullptr) return nullptr;
  found = dlhook_real_dlsym(own, name);
  RealDlclose(own);
  return found == wrapper ? nullptr : found;
}

// What the vendor's libraries look up from each other: libcudnn.so its parts, engines libcublasLt, the runtime the driver.
// Each such call happens inside one that is seen already, or would be seen twice. Only the way to the driver of a runtime
// linked into such a library is taken: it is the one view of what cuBLAS and cuDNN launch.
bool IsInnerLookup(const link_map* caller, const char* name) {
  if (!IsVendorObject(caller)) return false;
  bool to_driver = strncmp(name, "cuGetProcAddress", 16) == 0;
  return !to_driver;
}

// The function of ours that stands for `name`: a hook of the tables, or one written by hand. Null: none.
void* WrapperOf(const char* name) {
  int hook = FindHook(name);
  return hook < 0 ? CuptiWrapper(name) : kHookLinks[hook].wrapper;
}

void* WrappedFor(void* wrapper, const char* name, void* real, const link_map* caller) {
  void* thunk = FindThunk(real, wrapper);
  if (thunk != nullptr) return thunk;
  if (ObjectOf(real) == OwnObject()) return real;  // a hook already: a library that is not bound to itself
  ReportBinding(caller, ObjectOf(real), name);
  return ThunkFor(wrapper, real);
}

}  // namespace

void* HookFor(HookId hook, void* real, const link_map* caller) {
  return WrappedFor(kHookLinks[hook].wrapper, kHookNames[hook].name, real, caller);
}

void InitRealDlsym() {
  if (__builtin_expect(dlhook_real_dlsym != nullptr, 1)) return;
  void* real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (real == nullptr) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  dlhook_real_dlsym = reinterpret_cast<void* (*)(void*, const char*)>(real);
}

int RealDlclose(void* handle) {
  using Dlclose = int (*)(void*);
  static std::atomic<Dlclose> real{nullptr};
  Dlclose call = real.load(std::memory_order_relaxed);
  if (call == nullptr) {
    call = reinterpret_cast<Dlclose>(RealDlsym(RTLD_NEXT, "dlclose"));
    real.store(call, std::memory_order_relaxed);
  }
  return call(handle);
}

}  // namespace dlhook

extern "C" DlsymAnswer dlhook_dlsym_answer(void* handle, const char* name, void* caller) {
  using namespace dlhook;
  InitRealDlsym();
  void* wrapper = name == nullptr ? nullptr : WrapperOf(name);
  if (wrapper == nullptr) return {0, nullptr};
  const link_map* object = ObjectOf(caller);
  if (object == OwnObject()) return {0, nullptr};
  if (handle == RTLD_NEXT && !StandsBeforeUs(object)) return {0, nullptr};
  if (IsInnerLookup(object, name)) return {0, nullptr};
  void* real = WithoutUs(handle, name, wrapper, caller);
  return {1, real == nullptr ? nullptr : WrappedFor(wrapper, name, real, object)};
}

// Bindings to what is unmapped now must not be used again.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  int result = dlhook::RealDlclose(handle);
  dlhook::g_binding_generation.fetch_add(1, std::memory_order_relaxed);
  return result;
}
