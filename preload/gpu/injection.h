// dlhook without a preload: the driver loads libdlhook.so in cuInit if CUDA_INJECTION64_PATH names it. No hook is bound
// then; CUPTI's callbacks for functions of the runtime and driver become recorded calls with the hooks' names. Timed,
// copies with sizes and directions; no stacks, counters or operand memory (a callback must not query CUDA).
// Thread: InitializeInjection on the thread that calls cuInit; OnInjectedCallback on any application thread.
#pragma once

#include "preload/gpu/cupti_api.h"
#include "preload/hook_arguments.h"

namespace dlhook::inline gpu {

// Whether calls come from CUPTI's callbacks. False if the shim is also preloaded: then its hooks see them.
bool IsInjected();

// Enables the callbacks of all functions with hooks in captured families.
void EnableInjectedCallbacks(const CuptiApi& api, void* subscriber);

// At enter and exit of a function. Records the outermost one: the driver's inside the runtime's is not a separate call,
// as under a preload.
void OnInjectedCallback(uint32_t domain, uint32_t id, const cupti::CallbackData& data);

// The arguments of a copy or memset as passed by CUPTI's callbacks: special structures with a common form for all
// simple functions. Pure. `parameters`: cudaMemcpy_v3020_params and similar in generated_cuda_runtime_api_meta.h and generated_cuda_meta.h.
// False: `function` does not have this form.
bool ParseInjectedCopy(const char* function, const void* parameters, CopyArgs* copy);

}  // namespace dlhook::inline gpu
