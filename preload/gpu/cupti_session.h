// Enables and disables CUPTI: subscriber, attributes, kinds of activity, callbacks.
// Thread: any, under GpuState.control; not inside CUPTI's callbacks.
#pragma once

#include "preload/gpu/cupti_api.h"
#include "preload/gpu/gpu_state.h"

namespace dlhook::inline gpu {

enum class CuptiAnswer { kOn, kTaken, kRefused };

// Starts recording. kTaken: the application has it, perhaps another time; kRefused: not available at all. In both cases
// nothing is enabled for dlhook, and `reason` says why.
using GpuReason = char[300];
CuptiAnswer OpenCupti(const CuptiApi& api, GpuState* state, GpuReason& reason);

// Between OpenCupti and CloseCupti: leaves out work that is launched from now on, or records it again. What CUPTI holds
// follows with later flushes.
void SwitchCupti(const CuptiApi& api, const GpuState& state, bool is_on);

// Stops recording and makes CUPTI return everything it holds. `hand_over`: HandOverCupti follows; else the process
// ends, and CUPTI is not used any more, unless the application asks for it in an exit handler.
void CloseCupti(const CuptiApi& api, GpuState* state, bool hand_over);

// After CloseCupti, for the application to use: gives back our subscription, restores settings. Once.
void HandOverCupti(GpuState* state);

}  // namespace dlhook::inline gpu
