// Times of GPUs, as the rest of the shim sees it: begins with the first recorded call of CUDA's families, ends with
// the process. From CUPTI (gpu/cupti_*), from pairs of events where there is none (gpu/event_*), from nowhere. See
// README.md.
// Thread: any application thread, unless said otherwise.
#ifndef DLHOOK_PRELOAD_GPU_GPU_TIME_H_
#define DLHOOK_PRELOAD_GPU_GPU_TIME_H_

#include <cstdint>

#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Families of calls that make GPUs work; 0 where DLHOOK_GPU=off.
uint32_t GpuFamilies();

// Around every recorded call of these families (process/call_detail.cc), before its start is read and after its end
// was. `sequence`: the call's. Starts the recording at the process's first one.
void BeginGpuCall(ThreadState* thread, uint64_t sequence);
void EndGpuCall(ThreadState* thread);

// When the process ends: takes in what is finished and what CUPTI still holds. After it nothing of GPUs is recorded.
void FinishGpuTime();
// Has it called when the process exits, before what was registered earlier: to be called when CUDA has begun.
void FinishGpuTimeAtExit();
// The same as FinishGpuTime when CUDA may be gone: without any call into it.
void AbandonGpuTime();

// Begins without a recorded call (gpu/injection.cc).
void StartGpuTime();

// The application is about to use CUPTI (gpu/cupti_hooks.cc): hands it over, whole, and tells the trace that there is
// a gap. On return no call of ours into CUPTI is under way and none begins before ResumeGpuTime. `reason`: a literal,
// for people.
void YieldGpuTime(const char* reason);
// The application is done with it: the next recorded call begins again. Only a mark; takes no lock.
void ResumeGpuTime();

// Writes a record into the calling thread's ring; counts it in SessionHeader.gpu_dropped_ring where there is no room.
// With `patient`, for threads of our own: waits for the drain first, up to a second in all.
bool WriteGpuRecord(ThreadState* thread, RecordHeader* record, const void* text, uint32_t text_bytes, bool patient);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_GPU_TIME_H_
