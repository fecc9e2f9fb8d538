// GPU times, as the rest of the shim sees them: from the first recorded call of CUDA's families to the end of the
// process. From CUPTI (gpu/cupti_*), from pairs of events if there is none (gpu/event_*), or not at all. See README.md.
// Thread: any application thread, unless noted otherwise.
#pragma once

#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Families of calls that cause GPU work; 0 with DLHOOK_GPU=off.
uint32_t GpuFamilies();

// Around every recorded call of these families (process/call_detail.cc), before its start and after its end are read.
// `sequence`: the call's. The process's first one starts the recording.
void BeginGpuCall(ThreadState* thread, uint64_t sequence);
void EndGpuCall(ThreadState* thread);

// At the end of the process: collects what is finished and what CUPTI still holds. Afterwards no GPU times are
// recorded.
void FinishGpuTime();
// Registers it as an exit handler that runs before earlier ones: call when CUDA has started.
void FinishGpuTimeAtExit();
// Like FinishGpuTime when CUDA may be gone: makes no call into it.
void AbandonGpuTime();

// Starts without a recorded call (gpu/injection.cc).
void StartGpuTime();

// The application is about to use CUPTI (gpu/cupti_hooks.cc): hands it over completely, and records the gap in the
// trace. On return none of our calls into CUPTI is active, and none begins before ResumeGpuTime. `reason`: a literal,
// for the user.
void YieldGpuTime(const char* reason);
// The application no longer uses it: the next recorded call starts again. Only sets a mark; takes no lock.
void ResumeGpuTime();

// Recording is stopped: CUPTI is closed until a call is recorded again. Thread: dlhook-gpu.
void PauseGpuTime();

// Writes a record into the calling thread's ring; counts it in SessionHeader.gpu_dropped_ring if there is no room.
// `patient`, for our own threads: waits for the drain first, up to a second in total.
void WriteGpuRecord(ThreadState* thread, RecordHeader* record, bool patient = false, const void* text = nullptr,
                    uint32_t text_bytes = 0);

}  // namespace dlhook::inline gpu
