// The vendor's own functions (getters of descriptors, attributes of pointers), looked up next to a hooked one and
// bypassing our hooks.
// Thread: any application thread; the first look-up from a hook takes a lock and the loader's, later ones none.
#pragma once

#include "preload/base/function_table.h"
#include "preload/base/spin_lock.h"
#include "preload/link/resolver.h"

namespace dlhook::inline link {

// `name` in the scope of the library that contains the function `real`; null if none.
void* LibraryFunction(const void* real, const char* name);

// Calls a getter of the library's. False: the library does not have it, or it failed.
template <typename... Parameters, typename... Arguments>
bool Query(int (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == 0;
}

// The functions that a decoder or tracker needs from one library, found through any of its functions: a FunctionTable.
// It has none of them if there are too many libraries.
template <typename Api>
const Api& ApiOf(const void* real) {
  struct Entry {
    std::atomic<const void*> real{nullptr};  // null: free; published last
    uint32_t generation = 0;
    Api api;
  };
  constexpr uint32_t kEntries = 256;
  static constinit Entry entries[kEntries];
  static SpinLock lock;
  uint32_t start = static_cast<uint32_t>((reinterpret_cast<uint64_t>(real) * 0x9e3779b97f4a7c15u) >> 56);
  uint32_t generation = CurrentBindingGeneration();
  for (uint32_t i = 0; i < 8; ++i) {
    const Entry& entry = entries[(start + i) % kEntries];
    if (entry.real.load(std::memory_order_acquire) == real && entry.generation == generation) return entry.api;
  }
  SpinLockHolder holder(&lock);
  for (uint32_t i = 0; i < 8; ++i) {
    Entry& entry = entries[(start + i) % kEntries];
    const void* found = entry.real.load(std::memory_order_relaxed);
    bool stale = found != nullptr && entry.generation != generation;
    if (found == real && !stale) return entry.api;
    if (found != nullptr && !stale) continue;
    entry.real.store(nullptr, std::memory_order_release);
    entry.api = Api(
        {[](void* function, const char* name) { return LibraryFunction(function, name); }, const_cast<void*>(real)});
    entry.generation = generation;
    entry.real.store(real, std::memory_order_release);
    return entry.api;
  }
  static constinit Api none;
  return none;
}

// Driver functions that a program gets from cuGetProcAddress or cudaGetDriverEntryPoint instead of by linking or dlsym: every
// statically linked runtime (including those inside cuBLAS and cuDNN) reaches the driver like that. They get thunks like dlsym's
// (TrackDriverEntry).

// Of the runtime that contains `real`, as in 13000; 0 if not known.
uint32_t CudaRuntimeVersion(const void* real);

// The hook for what the driver returns for `name` (without _v2 and _ptsz) in this version: the newest variant that is
// not newer, of the per-thread kind only if requested. -1 if there is none.
int FindDriverVariant(const char* name, uint32_t version, bool per_thread_stream);

// The vendor's libraries whose calls to each other would be seen twice: libcudart (its functions are hooked) and its
// driver, the profiling interface, the parts of libcudnn behind libcudnn.so.
bool IsVendorObject(const link_map* object);

}  // namespace dlhook::inline link
