// Event pairs: contexts of the driver, each with a pool of pairs and with anchors, that is, events with a known host
// time. Plain data, valid when all zero, in memory that a forked child finds wiped: a child does none of this.
// Thread: any. `lock` is held for some instructions, never during a call into the driver.
#pragma once

#include "preload/base/function_table.h"
#include "preload/base/spin_lock.h"
#include "preload/format/gpu_records.h"
#include "preload/format/record.h"

namespace dlhook::inline gpu {

// CUresult
constexpr int kDriverSuccess = 0;
constexpr int kDriverNotReady = 600;
// CUstream of the default streams, distinct whatever the caller was compiled for.
constexpr uintptr_t kLegacyStream = 1;
constexpr uintptr_t kPerThreadStream = 2;

constexpr char kNoDriver[] = "the process has no usable libcuda.so.1";

// Of libcuda.so.1 itself: bypassing our hooks, and the runtime, whose last error belongs to the program.
struct EventDriver : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*event_create)(void** event, unsigned flags) = Need("cuEventCreate");
  int (*event_destroy)(void* event) = Need("cuEventDestroy_v2");
  int (*event_record)(void* event, void* stream) = Need("cuEventRecord");
  int (*event_query)(void* event) = Need("cuEventQuery");
  int (*event_elapsed)(float* milliseconds, void* start, void* end) = Need("cuEventElapsedTime");
  int (*stream_create)(void** stream, unsigned flags) = Need("cuStreamCreate");
  int (*stream_destroy)(void* stream) = Need("cuStreamDestroy_v2");
  int (*stream_context)(void* stream, void** context) = Find("cuStreamGetCtx");  // null before CUDA 9.2
  int (*stream_is_capturing)(void* stream, int* status) = Need("cuStreamIsCapturing");
  int (*exchange_capture_mode)(int* mode) = Find("cuThreadExchangeStreamCaptureMode");  // null before CUDA 10.1
  int (*context_current)(void** context) = Need("cuCtxGetCurrent");
  int (*context_push)(void* context) = Need("cuCtxPushCurrent_v2");
  int (*context_pop)(void** context) = Need("cuCtxPopCurrent_v2");
  int (*context_device)(int* device) = Need("cuCtxGetDevice");

  // Takes the loader's lock. False if none is mapped yet, or if it lacks a required function.
  bool Load();
};

// While it exists, this thread may create and query events although another thread captures a stream: otherwise that
// would invalidate the capture (cuThreadExchangeStreamCaptureMode). A capture by this thread itself is not affected
// either.
class CaptureTolerant {
 public:
  explicit CaptureTolerant(const EventDriver& driver);
  ~CaptureTolerant();
  CaptureTolerant(const CaptureTolerant&) = delete;
  CaptureTolerant& operator=(const CaptureTolerant&) = delete;

 private:
  const EventDriver& driver_;
  int mode_;
  bool exchanged_;
};

// Makes a context current on this thread while it exists.
class CurrentContext {
 public:
  CurrentContext(const EventDriver& driver, void* context)
      : driver_(driver), pushed_(driver.context_push(context) == kDriverSuccess) {}
  ~CurrentContext() {
    void* own = nullptr;
    if (pushed_) driver_.context_pop(&own);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  bool ok() const { return pushed_; }

 private:
  const EventDriver& driver_;
  bool pushed_;
};

struct EventContext;

// Events before and after the work of one call on its stream.
struct EventPair {
  EventPair* next;  // free, pending or waiting
  void* start;      // CUevent; null: not created yet
  void* stop;
  EventContext* context;
  uint64_t sequence;  // of the call
  uintptr_t stream;
  uint32_t thread_id;
  uint32_t stream_number;
  uint32_t anchor;
  GpuActivityKind kind;
};

struct EventAnchor {
  void* event;
  uint64_t host_ns;  // CLOCK_REALTIME when it was reached
  uint32_t users;    // pairs that are placed relative to it
};

struct EventList {
  EventPair* head;
  EventPair* tail;
};

enum class ContextPhase : uint32_t { kFree, kOpening, kReady, kEnding, kLost };

// The GPU may lag behind by this many calls of a context; later ones are not timed.
constexpr uint32_t kEventPairs = 4096;
constexpr uint32_t kEventContexts = 16;
constexpr uint32_t kEventAnchors = 4;
constexpr uint32_t kEventStreams = 512;

struct EventContext {
  void* context;                    // CUcontext
  std::atomic<ContextPhase> phase;  // changes under `lock`
  uint32_t generation;              // incremented when it ends: pairs taken before are invalid
  uint32_t number;                  // from 1
  uint32_t device;                  // CUDA's ordinal
  uint32_t pairs_made;
  uint32_t anchor;               // the current one
  std::atomic<uint32_t> inside;  // threads that currently use one of its events
  EventPair* free;
  EventList pending;  // recorded, in the order of their ends
  EventAnchor anchors[kEventAnchors];
  // For the holder of EventState.collecting:
  void* own_stream;
  void* spare_event;
  EventList waiting;     // taken from `pending`
  uint64_t anchored_ns;  // when the current anchor was made; CLOCK_MONOTONIC
  EventPair pairs[kEventPairs];
};

struct EventStream {
  uintptr_t handle;
  uint32_t context;    // number
  uint32_t thread_id;  // for a thread's own default stream, else 0
};

// Why calls were not timed.
enum class Untimed : uint32_t { kNoContext, kNoPair, kDriverFailed, kContextEnded, kGroup, kPending, kCount };

struct EventState {
  std::atomic<uint32_t> active;        // 0 in a forked child
  std::atomic<uint32_t> driver_state;  // 0: not found yet, 1: a thread is looking it up, 2: `driver` is complete
  std::atomic<uint32_t> driver_misses;
  EventDriver driver;
  SpinLock lock;
  SpinLock collecting;  // held while querying events, making anchors and ending contexts
  std::atomic<uint32_t> contexts_made;
  uint32_t streams_made;
  EventStream streams[kEventStreams];
  std::atomic<uint64_t> untimed[static_cast<uint32_t>(Untimed::kCount)];
  EventContext contexts[kEventContexts];
};

// Null before StartEvents and in a forked child.
EventState* LiveEventState();
// For StartEvents: new memory. Null if there is none that can be wiped, or if events were on at a fork.
EventState* NewEventState();

inline void CountUntimed(EventState* state, Untimed reason) {
  state->untimed[static_cast<uint32_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

// The context, opened if it is new. Null if unavailable (for now); counted.
EventContext* ContextOf(EventState* state, void* context);

// A pair with both events; also enters the context (LeaveContext). Null: none is free, or the context has ended;
// counted.
EventPair* TakePair(EventState* state, EventContext* context, uint32_t* generation);
void LeaveContext(EventContext* context);
// Enters the context of a pair that was taken in `generation`; false if it has ended since.
bool EnterAgain(EventState* state, const EventPair* pair, uint32_t generation);

// The caller must be inside the context, or hold `collecting`.
void PutBack(EventState* state, EventPair* pair);
void PutPending(EventState* state, EventPair* pair);

// From 1; when the table is full, all further ones share the last number.
uint32_t NumberOfStream(EventState* state, const EventContext& context, uintptr_t stream, uint32_t thread_id);

inline void Append(EventList* list, EventPair* pair) {
  pair->next = nullptr;
  (list->head == nullptr ? list->head : list->tail->next) = pair;
  list->tail = pair;
}

// Creates our stream and the first anchor for a context with `context` set: an event on our own, otherwise idle stream is
// reached between two reads of CLOCK_REALTIME. The program's current context is unchanged. False: not possible.
// Thread: the application's that first used the context; those below: the holder of EventState.collecting.
bool OpenContext(const EventDriver& driver, EventContext* context);

// Takes a new anchor if the current one is old: clocks drift, and the driver's times are floats. The context must be
// current.
void RefreshAnchor(EventState* state, EventContext* context);

// Destroys all events and the stream; pairs must be free or forgotten. The context must be current.
void CloseContext(const EventDriver& driver, EventContext* context);

}  // namespace dlhook::inline gpu
