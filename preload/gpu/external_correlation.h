// Joins GPU work to calls where the one subscription is the application's, so that no callback of ours runs: CUPTI
// itself writes down what was pushed around a call, in a record of its own before that of the CUDA function.
// Thread: StartExternalCorrelation and StopExternalCorrelation under GpuState.control; Push and Pop on the call's
// thread; LinkOf on dlhook-gpu.
#ifndef DLHOOK_PRELOAD_GPU_EXTERNAL_CORRELATION_H_
#define DLHOOK_PRELOAD_GPU_EXTERNAL_CORRELATION_H_

#include <cstdint>

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/gpu/cupti_api.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Enables the records that it takes: CUPTI's own of what was pushed, and those of the functions that make GPUs work.
// False: it can't be had.
bool StartExternalCorrelation(const CuptiApi& api);
void StopExternalCorrelation(const CuptiApi& api);

// Around a recorded call. What was pushed is popped by the call that pushed it, also when CUPTI was handed over
// meanwhile: CUPTI keeps a stack for each thread, and ours must not stay on it.
void PushGpuCall(const CuptiApi& api, ThreadState* thread, uint64_t sequence);
void PopGpuCall(const CuptiApi& api, ThreadState* thread);

// The stacks are gone: CUPTI was finalized.
void ForgetPushedCalls();

// What a record of kind EXTERNAL_CORRELATION says. False: it is not ours. Its `ticks` are 0: when the call was is
// told by the call.
bool LinkOf(const cupti::ExternalCorrelationRecord& record, GpuLinkRecord* link);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_EXTERNAL_CORRELATION_H_
