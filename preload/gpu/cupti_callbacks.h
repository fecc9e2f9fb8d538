// CUPTI's callbacks: for calls that cause GPU work, for graph nodes, for buffers.
// Thread: application threads (calls, nodes, requests for buffers), CUPTI's own and ours (full buffers). Never
// allocates, takes no lock except that of the queue of buffers; calls only cuptiGetGraphNodeId in CUPTI, which is meant
// for such callbacks.
#pragma once

#include <span>

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/gpu/cupti_api.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Functions [first, last] of a domain that cause GPU work, by CUPTI's numbers (cupti_driver_cbid.h,
// cupti_runtime_cbid.h), which never change their meaning. A version refuses those that it lacks.
struct CallbackRange {
  uint8_t domain;  // cupti::Domain
  uint16_t first;
  uint16_t last;
};
extern const std::span<const CallbackRange> kWorkCallbacks;

void OnCuptiCallback(void* user, uint32_t domain, uint32_t id, const void* data);
void OnBufferRequested(uint8_t** buffer, size_t* size, size_t* most_records);
// CUPTI may return a buffer by the functions that are registered now, not by those that lent it: those of the
// application and of dlhook pass on what is the other's.
void OnBufferCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
// True: it was a buffer of dlhook's, and is dealt with.
bool TakeOwnBuffer(uint8_t* buffer, size_t valid);

// Joins GPU work with calls while the only subscription belongs to the application, so that our callbacks do not run:
// CUPTI itself records what was pushed around a call, in a separate record before that of the CUDA function.

// Enables these records, and those of functions that cause GPU work. False: not available. Under GpuState.control.
bool StartExternalCorrelation(const CuptiApi& api);
void StopExternalCorrelation(const CuptiApi& api);

// Around a recorded call. What was pushed is popped by the call that pushed it, even if CUPTI was handed over
// meanwhile: CUPTI keeps a stack per thread, and dlhook's entries must not remain on it.
void PushGpuCall(const CuptiApi& api, ThreadState* thread, uint64_t sequence);
void PopGpuCall(const CuptiApi& api, ThreadState* thread);

// The stacks are gone, because CUPTI was finalized.
void ForgetPushedCalls();

// The link in a record of kind EXTERNAL_CORRELATION, without time. False: it is not dlhook's. On dlhook-gpu.
bool LinkOf(const cupti::ExternalCorrelationRecord& record, GpuLinkRecord* link);

}  // namespace dlhook::inline gpu
