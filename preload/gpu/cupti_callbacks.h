// CUPTI's callbacks: for calls that cause GPU work, for graph nodes, for buffers.
// Thread: application threads (calls, nodes, requests for buffers), CUPTI's own and ours (full buffers). Never
// allocates, takes no lock except that of the queue of buffers; calls only cuptiGetGraphNodeId in CUPTI, which is meant
// for such callbacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Functions [first, last] of a domain that cause GPU work, by CUPTI's numbers (cupti_driver_cbid.h,
// cupti_runtime_cbid.h), which never change their meaning. A version refuses those that it lacks.
struct CallbackRange {
  uint8_t domain;  // cupti::Domain
  uint16_t first;
  uint16_t last;
};
extern const CallbackRange kWorkCallbacks[];
extern const size_t kWorkCallbackCount;

// The calling thread if it currently records one of these families, else null.
ThreadState* RecordingThread(uint32_t families);

void OnCuptiCallback(void* user, uint32_t domain, uint32_t id, const void* data);
void OnBufferRequested(uint8_t** buffer, size_t* size, size_t* most_records);
// CUPTI may return a buffer by the functions that are registered now, not by those that lent it: those of the
// application and of dlhook pass on what is the other's.
void OnBufferCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
// True: it was a buffer of dlhook's, and is dealt with.
bool TakeOwnBuffer(uint8_t* buffer, size_t valid);

}  // namespace dlhook::inline gpu
