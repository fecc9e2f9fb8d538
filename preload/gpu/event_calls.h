// Pairs of CUDA events around calls that make a GPU work, for where CUPTI is not to be had: what the generated wrappers
// do. README.md.
// Thread: any application thread, for its own calls. One load and a branch where events are off.
#ifndef DLHOOK_PRELOAD_GPU_EVENT_CALLS_H_
#define DLHOOK_PRELOAD_GPU_EVENT_CALLS_H_

#include <atomic>
#include <cstdint>

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/runtime/call_scope.h"

namespace dlhook::inline gpu {

// How a call's stream is found (`work` in preload/api), or what the call means for streams and contexts.
enum class EventWork : uint8_t {
  kStream,         // argument: the stream
  kDefaultStream,  // no argument: the default stream
  kLaunchConfig,   // argument: cudaLaunchConfig_t or CUlaunchConfig
  kCublas,         // argument: a handle of the library, which is asked
  kCudnn,
  kCusparse,
  kCusolverDn,
  kCusolverSp,
  kCollective,   // argument: the stream; inside a group of NCCL's only queued
  kGroupBegin,   // ncclGroupStart
  kGroupEnd,     // ncclGroupEnd: what was queued begins
  kEndsContext,  // argument: the context that ends
  kEndsDevice,   // any context may end
};

struct EventCall {
  EventWork work;
  GpuActivityKind kind = GpuActivityKind::kOp;
  bool per_thread = false;  // the default stream is the thread's own (_ptsz, _ptds)
  const void* argument = nullptr;
  const void* real = nullptr;  // the function called, whose library is asked for a handle's stream
};

extern std::atomic<uint32_t> g_gpu_events;

// Whether GPU times are taken by events now.
inline bool GpuEventsOn() { return __builtin_expect(g_gpu_events.load(std::memory_order_relaxed) != 0, 0); }

// After BeginCall, before the real function; moves the call's start behind what it costs. Leaves the program's errno,
// its current context and the last errors of CUDA as they are.
void BeginCallEvents(CallFrame* frame, const EventCall& call);

// Where a recorded call ends, after its end was read.
void EndCallEvents(ThreadState* thread);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_EVENT_CALLS_H_
