// The arguments of a copy or memset as passed by CUPTI's callbacks: special structures with a common form for all
// simple functions. Pure functions.
#ifndef DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_
#define DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_

#include "preload/decode/copy.h"

namespace dlhook::inline gpu {

// `parameters`: cudaMemcpy_v3020_params and similar in generated_cuda_runtime_api_meta.h and generated_cuda_meta.h.
// False: `function` does not have this form.
bool ParseInjectedCopy(const char* function, const void* parameters, CopyArgs* copy);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_
