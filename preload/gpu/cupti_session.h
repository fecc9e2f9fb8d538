// CUPTI on and off: subscriber, attributes, kinds of activity, callbacks.
// Thread: any, under GpuState.control; not inside CUPTI's callbacks.
#ifndef DLHOOK_PRELOAD_GPU_CUPTI_SESSION_H_
#define DLHOOK_PRELOAD_GPU_CUPTI_SESSION_H_

#include <cstddef>

#include "preload/gpu/cupti_api.h"
#include "preload/gpu/gpu_state.h"

namespace dlhook::inline gpu {

enum class CuptiAnswer { kOn, kTaken, kRefused };

// Begins to record. kTaken: the application has it, another time perhaps; kRefused: it can't be had at all. Then
// nothing of ours is on, and `reason` says why.
CuptiAnswer OpenCupti(const CuptiApi& api, GpuState* state, char* reason, size_t reason_bytes);

// Stops recording and has CUPTI give back all that it holds. With `hand_over` HandOverCupti comes with it; else the
// process ends, and CUPTI is left alone from here on, unless the application asks for it in a handler of its own.
void CloseCupti(const CuptiApi& api, GpuState* state, bool hand_over);

// For the application to use after CloseCupti: without our subscription, settings as they were. Once.
void HandOverCupti(GpuState* state);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_CUPTI_SESSION_H_
