#include "preload/gpu/event_calls.h"

#include <sched.h>

#include "preload/format/clock.h"
#include "preload/gpu/event_pool.h"
#include "preload/runtime/registry.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline gpu {

std::atomic<uint32_t> g_gpu_events{0};

namespace {

// The state of a thread. A call left by longjmp or an exception is recognized as by DropStaleOpenCalls.
struct EventThread {
  EventPair* open;         // of the outermost timed call; nested calls are part of its work
  uintptr_t frame;         // of that call: the place of its sequence number
  uintptr_t busy;          // mark of the call that is being started: calls of a signal handler are not timed meanwhile
  uintptr_t group_stream;  // of what was queued in the open NCCL group; 0: none yet
  uint32_t depth;          // of recorded calls, including that call
  uint32_t generation;
  uint32_t groups;  // open ones
  uint32_t group_is_mixed;
};
__thread EventThread t_events;

constexpr uint32_t kMostDriverMisses = 64;
constexpr int kMostDriverYields = 10000;      // while another thread looks up the driver
constexpr size_t kStreamInLaunchConfig = 32;  // bytes, in cudaLaunchConfig_t and CUlaunchConfig

// Of EventWork::kCublas and those that follow.
constexpr GetStream StreamApi::*kGetters[] = {&StreamApi::cublas, &StreamApi::cudnn, &StreamApi::cusparse,
                                              &StreamApi::cusolver_dn, &StreamApi::cusolver_sp};

bool StreamOf(const EventCall& call, uintptr_t* stream) {
  *stream = 0;
  switch (call.work) {
    case EventWork::kStream:
    case EventWork::kCollective:
      *stream = reinterpret_cast<uintptr_t>(call.argument);
      return true;
    case EventWork::kDefaultStream:
      return true;
    case EventWork::kLaunchConfig:
      if (call.argument == nullptr) return false;
      memcpy(stream, static_cast<const char*>(call.argument) + kStreamInLaunchConfig, sizeof *stream);
      return true;
    case EventWork::kCublas:
    case EventWork::kCudnn:
    case EventWork::kCusparse:
    case EventWork::kCusolverDn:
    case EventWork::kCusolverSp: {
      const auto getter = kGetters[static_cast<size_t>(call.work) - static_cast<size_t>(EventWork::kCublas)];
      const void* found = nullptr;
      if (!StreamOfHandle(getter, call.argument, call.real, &found)) return false;
      *stream = reinterpret_cast<uintptr_t>(found);
      return true;
    }
    case EventWork::kGroupEnd:
      *stream = t_events.group_stream;
      return t_events.group_stream != 0;
    default:
      return false;
  }
}

uintptr_t WithDefault(uintptr_t stream, bool per_thread) {
  return stream != 0 ? stream : per_thread ? kPerThreadStream : kLegacyStream;
}

// Null or complete. The driver may become available with a later call: not before the runtime is first used.
const EventDriver* DriverOf(EventState* state) {
  uint32_t word = state->driver_state.load(std::memory_order_acquire);
  if (__builtin_expect(word == 2, 1)) return &state->driver;
  for (int i = 0; i < kMostDriverYields && word == 1; ++i) {
    sched_yield();
    word = state->driver_state.load(std::memory_order_acquire);
  }
  if (word == 2) return &state->driver;
  if (word != 0 || !state->driver_state.compare_exchange_strong(word, 1, std::memory_order_acquire)) return nullptr;
  bool loaded = state->driver.Load();
  state->driver_state.store(loaded ? 2 : 0, std::memory_order_release);
  if (loaded) return &state->driver;
  if (state->driver_misses.fetch_add(1) + 1 == kMostDriverMisses) {
    g_gpu_events.store(0, std::memory_order_relaxed);
    ReportCapability("gpu-events", "", CapabilityState::kAbsent, kNoDriver);
  }
  return nullptr;
}

// Null if the stream belongs to no context yet.
void* ContextOfStream(const EventDriver& driver, uintptr_t stream) {
  void* context = nullptr;
  bool is_default = stream <= kPerThreadStream;
  if (!is_default && driver.stream_context != nullptr &&
      driver.stream_context(reinterpret_cast<void*>(stream), &context) == kDriverSuccess) {
    return context;
  }
  return driver.context_current(&context) == kDriverSuccess ? context : nullptr;
}

// Also true for the legacy stream while it can't be used because another stream is being captured. The query does not
// disturb a capture.
bool IsCaptured(const EventDriver& driver, uintptr_t stream) {
  int status = 0;
  return driver.stream_is_capturing(reinterpret_cast<void*>(stream), &status) != kDriverSuccess || status != 0;
}

// Whether the timed call goes on, so that the one at `frame` is part of it.
bool IsOpen(const EventThread& own, uintptr_t frame) {
  return own.frame > frame || (own.frame != frame && Contains(own.frame, own.open->sequence));
}

void OpenPair(EventState* state, EventThread* own, CallFrame* frame, const EventCall& call) {
  uintptr_t stream;
  const EventDriver* driver = DriverOf(state);
  if (driver == nullptr || !StreamOf(call, &stream)) return CountUntimed(state, Untimed::kNoContext);
  stream = WithDefault(stream, call.per_thread);
  void* current = ContextOfStream(*driver, stream);
  if (current == nullptr) return CountUntimed(state, Untimed::kNoContext);
  if (IsCaptured(*driver, stream)) return;
  EventContext* context = ContextOf(state, current);
  EventPair* pair = context == nullptr ? nullptr : TakePair(state, context, &own->generation);
  if (pair == nullptr) return;
  pair->sequence = frame->sequence;
  pair->thread_id = frame->thread->thread_id;
  pair->stream = stream;
  pair->stream_number = NumberOfStream(state, *context, stream, pair->thread_id);
  pair->kind = call.kind;
  if (driver->event_record(pair->start, reinterpret_cast<void*>(stream)) == kDriverSuccess) {
    own->open = pair;
    own->frame = reinterpret_cast<uintptr_t>(&frame->sequence);
    own->depth = frame->thread->depth;
  } else {
    PutBack(state, pair);
    CountUntimed(state, Untimed::kDriverFailed);
  }
  LeaveContext(context);
}

// Whether the call's own work begins now. Follows NCCL groups: nothing is launched before the outermost one ends.
bool BeginsWork(EventState* state, EventThread* own, const EventCall& call) {
  if (call.work == EventWork::kGroupBegin) {
    if (own->groups++ == 0) own->group_stream = own->group_is_mixed = 0;
    return false;
  }
  if (call.work == EventWork::kGroupEnd) {
    if (own->groups == 0 || --own->groups != 0 || own->group_stream == 0) return false;
    if (own->group_is_mixed != 0) CountUntimed(state, Untimed::kGroup);
    return own->group_is_mixed == 0;
  }
  if (call.work != EventWork::kCollective || own->groups == 0) return true;
  uintptr_t stream = WithDefault(reinterpret_cast<uintptr_t>(call.argument), call.per_thread);
  if (own->group_stream != 0 && own->group_stream != stream) own->group_is_mixed = 1;
  own->group_stream = stream;
  return false;
}

// Since the call began, the stream may have been captured, or another context may have become current.
bool RecordStop(const EventDriver& driver, const EventPair& pair) {
  if (IsCaptured(driver, pair.stream)) return false;
  if (pair.stream <= kPerThreadStream && ContextOfStream(driver, pair.stream) != pair.context->context) return false;
  return driver.event_record(pair.stop, reinterpret_cast<void*>(pair.stream)) == kDriverSuccess;
}

// `is_left`: the call did not return.
void EndOpen(EventThread* own, bool is_left) {
  EventPair* pair = own->open;
  own->open = nullptr;
  EventState* state = LiveEventState();
  if (state == nullptr) return;
  if (!EnterAgain(state, pair, own->generation)) return CountUntimed(state, Untimed::kContextEnded);
  EventContext* context = pair->context;
  if (!is_left && RecordStop(state->driver, *pair)) {
    PutPending(state, pair);
  } else {
    PutBack(state, pair);
    CountUntimed(state, is_left ? Untimed::kContextEnded : Untimed::kDriverFailed);
  }
  LeaveContext(context);
}

void Begin(EventState* state, CallFrame* frame, const EventCall& call) {
  if (call.work == EventWork::kEndsContext) return EndEventContexts(state, frame->thread, call.argument);
  if (call.work == EventWork::kEndsDevice) return EndEventContexts(state, frame->thread, nullptr);
  EventThread* own = &t_events;
  if (own->busy != 0 && frame->mark.SeesWorkAt(own->busy)) return;
  if (!BeginsWork(state, own, call) || frame->thread == nullptr || frame->detail == 0) return;
  if (own->open != nullptr && IsOpen(*own, reinterpret_cast<uintptr_t>(&frame->sequence))) return;
  own->busy = frame->mark.Set();
  if (own->open != nullptr) EndOpen(own, /*is_left=*/true);
  OpenPair(state, own, frame, call);
  own->busy = 0;
}

}  // namespace

void BeginCallEvents(CallFrame* frame, const EventCall& call) {
  EventState* state = LiveEventState();
  if (state == nullptr) return;
  ErrnoKeeper keeper;
  Begin(state, frame, call);
  if (frame->thread != nullptr) frame->start_ticks = ReadTicks(frame->thread->clock);
}

void EndCallEvents(ThreadState* thread) {
  EventThread* own = &t_events;
  if (own->open == nullptr || own->depth != thread->depth + 1) return;
  ErrnoKeeper keeper;
  EndOpen(own, /*is_left=*/false);
}

}  // namespace dlhook::inline gpu
