// Driver functions that a program gets from cuGetProcAddress or cudaGetDriverEntryPoint instead of by linking or dlsym:
// every statically linked runtime (including those inside cuBLAS and cuDNN) reaches the driver like that. They get
// thunks like dlsym's.
// Thread: any application thread, after the real function has returned.
#pragma once

#include <cstdint>

struct link_map;

namespace dlhook::inline link {

struct DriverEntryArgs {
  const char* symbol = nullptr;
  void** out = nullptr;  // where the library put the function; may be changed
  int64_t version = 0;   // requested CUDA version; 0: that of the called runtime
  uint64_t flags = 0;    // cudaEnableDefault 0, …LegacyStream 1, …PerThreadDefaultStream 2
  int32_t status = 0;
  const void* real = nullptr;
  void* caller = nullptr;
};
void TrackDriverEntry(const DriverEntryArgs& args);

// Of the runtime that contains `real`, as in 13000; 0 if not known.
uint32_t CudaRuntimeVersion(const void* real);

// The hook for what the driver returns for `name` (without _v2 and _ptsz) in this version: the newest variant that is
// not newer, of the per-thread kind only if requested. -1 if there is none.
int FindDriverVariant(const char* name, uint32_t version, bool per_thread_stream);

// The vendor's libraries whose calls to each other would be seen twice: libcudart (its functions are hooked) and its
// driver, the profiling interface, the parts of libcudnn behind libcudnn.so.
bool IsVendorObject(const link_map* object);

}  // namespace dlhook::inline link
