// The thread "dlhook-gpu": feeds the buffers that CUPTI has filled into its own ring, makes CUPTI return what is
// complete, collects events. It blocks all signals. A forked child has none.
#pragma once

#include "preload/gpu/gpu_state.h"

namespace dlhook::inline gpu {

// True if it exists now. Does not wait for it.
// Thread: any, under GpuState.control.
bool StartGpuThread(GpuState* state);

// There is work to do.
// Thread: any; a system call.
void WakeGpuThread(GpuState* state);

// Waits until it has fed everything queued; at most `milliseconds`.
// Thread: any but itself, not in CUPTI's callbacks.
void WaitUntilFed(GpuState* state, uint32_t milliseconds);

// It closes CUPTI, feeds what is queued, records what was left out, and ends; waits for at most some seconds.
// Thread: the one that ends the process.
void StopGpuThread(GpuState* state);

// Counts records that CUPTI wrote to scratch pages as dropped.
// Thread: CUPTI's callbacks.
void CountScratchRecords(uint8_t* buffer, size_t valid);

// Adds CUPTI's own count of dropped records since the last query.
// Thread: any, under GpuState.control.
void CountDroppedRecords();

}  // namespace dlhook::inline gpu
