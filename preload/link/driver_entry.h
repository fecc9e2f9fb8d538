// Driver functions that a program gets from cuGetProcAddress or cudaGetDriverEntryPoint instead of by linking or dlsym:
// every statically linked runtime (including those inside cuBLAS and cuDNN) reaches the driver like that. They get
// thunks like dlsym's.
// Thread: any application thread, after the real function has returned.
#pragma once

#include "preload/hook_arguments.h"

struct link_map;

namespace dlhook::inline link {

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
