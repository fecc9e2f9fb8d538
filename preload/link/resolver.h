// Finds the real function behind a hook, separately for each calling object: two libraries of one process may each have
// their own `sgemm_`, and calling the wrong one corrupts data (LP64 next to ILP64).
// Thread: any application thread. ResolveReal's slow path takes the loader's lock, once per (call site, hook).
#pragma once

#include <dlfcn.h>

#include "preload/format/hook_table.h"
#include "preload/runtime/parts.h"

struct link_map;

namespace dlhook::inline link {

// What `caller` would get for `name` without dlhook, or null. Also for names outside the hook table.
void* FindReal(const char* name, const char* const* sonames, void* own_symbol, void* caller);

// The symbol (of a version, if one is given) in the scope of `object` and its dependencies, or null. Not for the main program.
void* FindInObject(const char* name, const char* version, const link_map* object);

// glibc's dlsym, dlvsym and dlclose, bypassing the shim's. They do not affect the program's dlerror(), nor does the
// shim's use of dlopen (link/dlsym.cc).
void* RealDlsym(void* handle, const char* name);
void* RealDlvsym(void* handle, const char* name, const char* version);
int RealDlclose(void* handle);

// The function that a program would get without dlhook, whatever object calls it: the C library's.
template <typename Function>
Function* RealOf(const char* name) {
  return reinterpret_cast<Function*>(RealDlsym(RTLD_NEXT, name));
}

// The same, looked up once.
template <typename Function>
Function* RealOf(const char* name, std::atomic<Function*>* known) {
  Function* real = known->load(std::memory_order_relaxed);
  if (real == nullptr) known->store(real = RealOf<Function>(name), std::memory_order_relaxed);
  return real;
}

// The loaded object that contains `address`, or null (JIT code). The other one looks nothing up, but is slow.
link_map* ObjectOf(const void* address);
link_map* ObjectOfSlow(const void* address);
bool IsLoadedBefore(const link_map* first, const link_map* second);

// Base name of the object's file; for the main program, of its executable. "" for null.
const char* ObjectName(const link_map* object);

}  // namespace dlhook::inline link
