// What libc.so.6 itself exports, regardless of what precedes it in the search order.
// Thread: any; may be called before the shim is relocated.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

// Functions of the dl family, for link/ only: they replace the program's pending error (base/loader_error.h).
extern "C" {
int dlhook_libc_dladdr1(const void* address, Dl_info* info, void** more, int flags)
    __attribute__((visibility("hidden")));
void* dlhook_libc_dlopen(const char* path, int mode) __attribute__((visibility("hidden")));
void* dlhook_libc_dlvsym(void* handle, const char* name, const char* version) __attribute__((visibility("hidden")));
int dlhook_libc_dlclose(void* handle) __attribute__((visibility("hidden")));
}

// Functions whose plain names are interposed (process/lifecycle.cc, sample/).
extern "C" {
[[noreturn]] void dlhook_libc__exit(int status) __attribute__((visibility("hidden")));
int dlhook_libc_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*),
                               void* argument) __attribute__((visibility("hidden")));
int dlhook_libc_sigaction(int number, const struct sigaction* action, struct sigaction* old)
    __attribute__((visibility("hidden")));
}

namespace dlhook::inline base {

// Null if there is none.
const link_map* FindLibc();

// The default version of `name`, or null.
const ElfW(Sym) * FindLibcSymbol(const char* name);

}  // namespace dlhook::inline base
