// Joins GPU work with calls while the only subscription belongs to the application, so that our callbacks do not run:
// CUPTI itself records what was pushed around a call, in a separate record before that of the CUDA function.
// Thread: StartExternalCorrelation and StopExternalCorrelation under GpuState.control; Push and Pop on the call's
// thread; LinkOf on dlhook-gpu.
#pragma once

#include <cstdint>

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/gpu/cupti_api.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Enables the necessary records: CUPTI's own of what was pushed, and those of functions that cause GPU work. False: not
// available.
bool StartExternalCorrelation(const CuptiApi& api);
void StopExternalCorrelation(const CuptiApi& api);

// Around a recorded call. What was pushed is popped by the call that pushed it, even if CUPTI was handed over
// meanwhile: CUPTI keeps a stack per thread, and dlhook's entries must not remain on it.
void PushGpuCall(const CuptiApi& api, ThreadState* thread, uint64_t sequence);
void PopGpuCall(const CuptiApi& api, ThreadState* thread);

// The stacks are gone, because CUPTI was finalized.
void ForgetPushedCalls();

// The link in a record of kind EXTERNAL_CORRELATION. False: it is not dlhook's. Its `ticks` are 0: the call gives the
// time.
bool LinkOf(const cupti::ExternalCorrelationRecord& record, GpuLinkRecord* link);

}  // namespace dlhook::inline gpu
