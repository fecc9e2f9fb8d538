// Pairs of CUDA events around calls that cause GPU work, if CUPTI is unavailable: the part in the generated wrappers.
// README.md.
// Thread: any application thread, for its own calls. One load and a branch if events are off.
#pragma once

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/gpu/event_pool.h"
#include "preload/runtime/call_scope.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Times calls from now on. The first of them looks up the driver, which may not be loaded yet. False: out of memory, or
// a forked child of a process that did it.
// Thread: any; makes two system calls, takes no lock.
bool StartEvents();

// Writes the activities of complete pairs into the ring of `own`, the calling thread's.
// Thread: dlhook-gpu, every few milliseconds; an application thread before it ends a context.
void CollectEvents(ThreadState* own);

// At the end of the process: waits for pending pairs, at most kLongestEventWaitMs, collects, turns events off.
// Idempotent.
// Thread: one with a ring, before CUDA ends.
void FinishEvents(ThreadState* own);
constexpr int kLongestEventWaitMs = 20;

// How to find a call's stream (`work` in preload/api), or what the call means for streams and contexts.
enum class EventWork : uint8_t {
  kStream,         // argument: the stream
  kDefaultStream,  // no argument: the default stream
  kLaunchConfig,   // argument: cudaLaunchConfig_t or CUlaunchConfig
  kCublas,         // argument: a handle of the library, which is queried
  kCudnn,
  kCusparse,
  kCusolverDn,
  kCusolverSp,
  kCollective,   // argument: the stream; inside an NCCL group only queued
  kGroupBegin,   // ncclGroupStart
  kGroupEnd,     // ncclGroupEnd: the queued work begins
  kEndsContext,  // argument: the context that ends
  kEndsDevice,   // any context may end
};

struct EventCall {
  EventWork work;
  GpuActivityKind kind = GpuActivityKind::kOp;
  bool per_thread = false;  // the default stream is the thread's own (_ptsz, _ptds)
  const void* argument = nullptr;
  const void* real = nullptr;  // the called function, whose library is queried for a handle's stream
};

extern std::atomic<uint32_t> g_gpu_events;

// Whether GPU times are currently measured with events.
inline bool GpuEventsOn() { return __builtin_expect(g_gpu_events.load(std::memory_order_relaxed) != 0, 0); }

// After BeginCall, before the real function; moves the call's start to after its own cost. Preserves the program's
// errno, its current context and CUDA's last errors.
void BeginCallEvents(CallFrame* frame, const EventCall& call);

// At the end of a recorded call, after its end was read.
void EndCallEvents(ThreadState* thread);

// The application is about to end a context (null: any): collects what is complete and destroys all events, which would
// vanish with it. A context that survives is opened again by its next call. `thread`: the calling one's, or null.
// Thread: any application thread, before the real function.
void EndEventContexts(EventState* state, ThreadState* thread, const void* context);

}  // namespace dlhook::inline gpu
