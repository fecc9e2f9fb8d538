// What is behind the streams, kernels and addresses that calls of CUDA name: streams in capture, names of kernels, kinds of memory.
#pragma once

#include "preload/base/function_table.h"
#include "preload/hook_arguments.h"

namespace dlhook::inline track {

// Streams being captured into CUDA graphs: calls made on them are recorded by CUDA, not executed.
// Thread: any application thread. One load if nothing is being captured.

extern std::atomic<int32_t> g_open_captures;
bool AskWhetherCaptured(const void* stream);

// Whether calls on `stream` are being captured.
inline bool IsCaptured(const void* stream) {
  return __builtin_expect(g_open_captures.load(std::memory_order_relaxed) > 0, 0) && AskWhetherCaptured(stream);
}

// The streams of the libraries' handles.
using GetStream = int (*)(const void* handle, const void** stream);
struct StreamApi : FunctionTable {
  using FunctionTable::FunctionTable;
  GetStream cublas = Find("cublasGetStream_v2");
  GetStream cudnn = Find("cudnnGetStream");
  GetStream cusparse = Find("cusparseGetStream");
  GetStream cusolver_dn = Find("cusolverDnGetStream");
  GetStream cusolver_sp = Find("cusolverSpGetStream");
};

// `real`: the called function of the handle's library. False: it can't be told.
bool StreamOfHandle(GetStream StreamApi::*getter, const void* handle, const void* real, const void** stream);

// The stream is queried only while a capture is active.
inline bool IsHandleCaptured(GetStream StreamApi::*getter, const void* handle, const void* real) {
  const void* stream = nullptr;
  return __builtin_expect(g_open_captures.load(std::memory_order_relaxed) > 0, 0) &&
         StreamOfHandle(getter, handle, real, &stream) && IsCaptured(stream);
}

// Names of kernels by the handles used in launches: host functions of the runtime, cudaKernel_t, CUfunction, CUkernel.
// Thread: any application thread. A registration (PyTorch makes 24 000 at import) is one store into a table under a
// lock; the name itself is copied only for kernels that are launched while dlhook records.

// The definition (format/definitions.h) of the kernel behind a handle; 0 if its name is not known. `real`: the function
// that launched it, whose library is asked if no registration was seen (cuFuncGetName, from CUDA 12.3).
uint32_t KernelDefinition(const void* function, const void* real);

// Which kind of host memory a copy accesses: pageable, pinned or managed, according to the CUDA library.
// Thread: any application thread. The library is asked once per address and thread, until host memory is registered,
// allocated or freed through CUDA.

// kNone: the device's memory. `real`: a function of the runtime or the driver that was just called with this address.
HostMemory HostMemoryAt(const void* address, const void* real);

}  // namespace dlhook::inline track
