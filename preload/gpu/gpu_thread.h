// The thread "dlhook-gpu": feeds what CUPTI has filled into a ring of its own, has CUPTI hand over what is complete,
// collects events. It blocks all signals. A forked child has none.
#ifndef DLHOOK_PRELOAD_GPU_GPU_THREAD_H_
#define DLHOOK_PRELOAD_GPU_GPU_THREAD_H_

#include <cstddef>
#include <cstdint>

#include "preload/gpu/gpu_state.h"

namespace dlhook::inline gpu {

// True where there is one now. Does not wait for it. Thread: any, under GpuState.control.
bool StartGpuThread(GpuState* state);

// There is something to do. Thread: any; a system call.
void WakeGpuThread(GpuState* state);

// Until it has fed all that was queued; at most `milliseconds`. Thread: any but itself, not in CUPTI's callbacks.
void WaitUntilFed(GpuState* state, uint32_t milliseconds);

// It closes CUPTI, feeds what is queued, says what was left out, and ends; waited for at most some seconds. Thread: the one
// that ends the process.
void StopGpuThread(GpuState* state);

// Records that CUPTI wrote where nobody can keep them count as dropped. Thread: CUPTI's callbacks.
void CountScratchRecords(uint8_t* buffer, size_t valid);

// Adds CUPTI's own count of what it dropped since it was asked last. Thread: any, under GpuState.control.
void CountDroppedRecords();

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_GPU_THREAD_H_
