// Our dlsym and dlvsym and their thunks. TensorFlow, JAX and XLA reach everything through dlopen + dlsym, so a pointer
// from dlsym must be a hook, too. Each distinct real function that dlsym finds gets its own thunk, which jumps to the
// wrapper with the real function in a register. So a call through the pointer reaches exactly the function that was
// looked up, whatever calls it (ctypes, JIT code, another library), and two functions with one name never mix.
// Thread: any application thread; takes a lock only when it returns a pointer for the first time.
#pragma once

#include "preload/format/hook_table.h"

struct link_map;

extern "C" {
// glibc's; null before the first look-up.
extern void* (*dlhook_real_dlsym)(void* handle, const char* name) __attribute__((visibility("hidden")));
extern void* (*dlhook_real_dlvsym)(void* handle, const char* name, const char* version)
    __attribute__((visibility("hidden")));

struct DlsymAnswer {
  uint64_t handled;  // 0: jump to the real dlsym as if we were not there
  void* value;
};
// Called by the assembly stubs `dlsym` (no version) and `dlvsym` with the caller's return address.
DlsymAnswer dlhook_dlsym_answer(void* handle, const char* name, void* caller, const char* version)
    __attribute__((visibility("hidden")));
}

namespace dlhook::inline link {

// glibc's, which replaces the program's pending error.
using Dlsym = void* (*)(void* handle, const char* name);
Dlsym RealDlsymPointer();

// What `caller` gets instead of the pointer `real` to a hooked function: a thunk, or `real` itself if there are no more
// thunks (counted).
void* HookFor(HookId hook, void* real, const link_map* caller);

// A wrapper of a function that is not in the tables, with two entries (base/entry.h).
struct LookedUp {
  const char* name;
  void* wrapper;
};
// In the file of a hand-written exported wrapper: makes dlsym return it, too.
#define DLHOOK_LOOKED_UP(entry, function)            \
  __attribute__((section("dlhook_looked_up"), used)) \
  const LookedUp entry = {#function, reinterpret_cast<void*>(&function)}

// The real function behind the thunk at `address`; null: not a thunk.
const void* BehindThunk(const void* address);

// Another libdlhook.so in this process: of another installation, named by LD_PRELOAD beside ours (a wheel's and a host's). Two would
// call each other without end, so only the first in the search order records, and the others' symbols can't be found any more.
// Thread: the first that looks anything up, usually the loader's.

// Empties the filters of the hash tables in which the loader looks for the symbols of all but the first. Before our first look-up.
void HideLaterShims();

// Whether another one is first: then this one records nothing, and passes on what was bound to it before it was hidden.
bool IsLaterShim();

// The path of this one's file, as the loader was given it.
const char* OwnPath();

}  // namespace dlhook::inline link
