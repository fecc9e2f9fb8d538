// The interposed dladdr and dladdr1: for one of our functions that replaces a library's, they describe the function
// behind it. NumPy, R and others print the name of their BLAS with these. Addresses inside functions, as in backtraces,
// are not changed. Thread: any application thread, also in signal handlers; only addresses in the shim are examined.
#include <dlfcn.h>

#include <atomic>

#include "preload/format/hook_table.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

#define DLHOOK_EXPORT __attribute__((visibility("default")))

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));  // of the shim, from the linker
extern "C" const char _end[] __attribute__((visibility("hidden")));

namespace dlhook::inline link {
namespace {

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
}  // namespace dlhook::inline link

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
