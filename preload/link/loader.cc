// The shim's calls of the dl family. They are made only here (and by the exported dlsym, dlvsym and dlclose, for the
// program).
#include <dlfcn.h>

#include "preload/base/libc_functions.h"
#include "preload/base/loader_error.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

namespace dlhook::inline link {

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

}  // namespace dlhook::inline link

// Replaces the C library's for the whole shim.
extern "C" __attribute__((visibility("hidden"))) void* dlopen(const char* path, int mode) noexcept {
  dlhook::KeptLoaderError kept;
  return dlhook_libc_dlopen(path, mode);
}
