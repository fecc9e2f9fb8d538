// dlhook without a preload: the driver loads libdlhook.so at cuInit where CUDA_INJECTION64_PATH names it. No hook is
// bound then; CUPTI's callbacks for functions of the runtime and driver become recorded calls of the very hooks'
// names. Timed, copies with sizes and directions; no stacks, counters or operand memory (a callback may ask CUDA
// nothing).
// Thread: InitializeInjection on the thread that calls cuInit; OnInjectedCallback on any application thread.
#ifndef DLHOOK_PRELOAD_GPU_INJECTION_H_
#define DLHOOK_PRELOAD_GPU_INJECTION_H_

#include <cstdint>

#include "preload/gpu/cupti_api.h"

namespace dlhook::inline gpu {

// Whether calls come from CUPTI's callbacks. Not where the shim is preloaded as well: its hooks see them.
bool IsInjected();

// Enables the callbacks of all functions that are hooks of captured families.
void EnableInjectedCallbacks(const CuptiApi& api, void* subscriber);

// At enter and exit of a function. Records the outermost one: the driver's inside the runtime's is no call of its
// own, as under a preload.
void OnInjectedCallback(uint32_t domain, uint32_t id, const cupti::CallbackData& data);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_INJECTION_H_
