// The arguments of a copy or fill as CUPTI's callbacks hand them over: structures of their own, alike for all simple
// forms. Pure functions.
#ifndef DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_
#define DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_

#include "preload/decode/copy.h"

namespace dlhook::inline gpu {

// `parameters`: cudaMemcpy_v3020_params and its kin of generated_cuda_runtime_api_meta.h and generated_cuda_meta.h.
// False: `function` is no such form.
bool ParseInjectedCopy(const char* function, const void* parameters, CopyArgs* copy);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_INJECTED_COPY_H_
