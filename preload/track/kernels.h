// Names of kernels by the handles used in launches: host functions of the runtime, cudaKernel_t, CUfunction, CUkernel.
// Thread: any application thread. A registration (PyTorch makes 24 000 at import) is one store into a table under a
// lock; the name itself is copied only for kernels that are launched while dlhook records.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline track {

// __cudaRegisterFunction: the name is in the fat binary's data, valid as long as its library is loaded.
void TrackRegisterFunction(const RegisterFunctionArgs& args);

// A new handle for a function that already has one: __cudaGetKernel, cudaGetKernel, cudaGetFuncBySymbol,
// cuKernelGetFunction.
void TrackKernelAlias(const KernelAliasArgs& args);

// A handle by name: cuModuleGetFunction, cuLibraryGetKernel, cudaLibraryGetKernel. The name is copied.
void TrackKernelByName(const KernelByNameArgs& args);

// The definition (format/definitions.h) of the kernel behind a handle; 0 if its name is not known. `real`: the function
// that launched it, whose library is asked if no registration was seen (cuFuncGetName, from CUDA 12.3).
uint32_t KernelDefinition(const void* function, const void* real);

}  // namespace dlhook::inline track
