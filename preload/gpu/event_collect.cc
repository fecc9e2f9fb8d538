// See event_calls.h.
#include <sched.h>
#include <stdio.h>

#include "preload/format/gpu_records.h"
#include "preload/gpu/event_calls.h"
#include "preload/gpu/event_pool.h"
#include "preload/gpu/gpu_devices.h"
#include "preload/gpu/gpu_time.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline gpu {
namespace {

struct Collector {
  EventState* state;
  ThreadState* own;  // the calling thread's, or null: nothing can be written
  bool patient;      // waits for room in its ring
};

bool ElapsedNs(const EventDriver& driver, void* from, void* to, int64_t* nanoseconds) {
  float milliseconds = 0;
  if (driver.event_elapsed(&milliseconds, from, to) != kDriverSuccess) return false;
  double exact = static_cast<double>(milliseconds) * 1e6;
  *nanoseconds = static_cast<int64_t>(exact < 0 ? exact - 0.5 : exact + 0.5);
  return true;
}

bool WriteActivity(const Collector& collector, const EventPair& pair) {
  const EventDriver& driver = collector.state->driver;
  const EventContext& context = *pair.context;
  const EventAnchor& anchor = context.anchors[pair.anchor];
  int64_t after_anchor, duration;
  if (!ElapsedNs(driver, anchor.event, pair.start, &after_anchor)) return false;
  if (!ElapsedNs(driver, pair.start, pair.stop, &duration)) return false;
  GpuActivityRecord record = {};
  record.header = {sizeof record / 8, RecordType::kGpuActivity, 0, 0, 0, 0};
  record.start_ns = anchor.host_ns + static_cast<uint64_t>(after_anchor);
  record.end_ns = record.start_ns + static_cast<uint64_t>(duration > 0 ? duration : 0);
  record.sequence = pair.sequence;
  record.thread_id = pair.thread_id;
  record.device = context.device;
  record.stream = pair.stream_number;
  record.kind = pair.kind;
  record.source = GpuTimeSource::kEvents;
  WriteGpuRecord(collector.own, &record.header, collector.patient);
  return true;
}

void TakeOver(EventState* state, EventContext* context) {
  SpinLockHolder holder(&state->lock);
  EventList* pending = &context->pending;
  if (pending->head == nullptr) return;
  (context->waiting.head == nullptr ? context->waiting.head : context->waiting.tail->next) = pending->head;
  context->waiting.tail = pending->tail;
  *pending = {};
}

enum class Outcome { kDone, kNotYet, kLost };

Outcome Finish(const Collector& collector, EventPair* pair) {
  EventState* state = collector.state;
  int status = state->driver.event_query(pair->stop);
  if (status == kDriverNotReady) return Outcome::kNotYet;
  if (status != kDriverSuccess) return Outcome::kLost;
  if (collector.own == nullptr) {
    CountUntimed(state, Untimed::kContextEnded);
  } else if (!WriteActivity(collector, *pair)) {
    CountUntimed(state, Untimed::kDriverFailed);
  }
  PutBack(state, pair);
  return Outcome::kDone;
}

// False if the context can't be used any more: a kernel failed, or it ended unseen.
bool CollectContext(const Collector& collector, EventContext* context) {
  TakeOver(collector.state, context);
  EventList old = context->waiting;
  context->waiting = {};
  if (old.head != nullptr && collector.own != nullptr) NoteGpuDevice(collector.own, context->device);
  // By stream: if its oldest pair is not complete, later ones need not be queried.
  bool is_unfinished[kEventStreams + 1] = {};
  Outcome worst = Outcome::kDone;
  while (old.head != nullptr) {
    EventPair* pair = old.head;
    old.head = pair->next;
    bool skip = worst == Outcome::kLost || is_unfinished[pair->stream_number];
    Outcome outcome = skip ? Outcome::kNotYet : Finish(collector, pair);
    if (outcome == Outcome::kLost) worst = outcome;
    if (outcome == Outcome::kDone) continue;
    is_unfinished[pair->stream_number] = true;
    Append(&context->waiting, pair);
  }
  return worst != Outcome::kLost;
}

void DropWaiting(EventState* state, EventContext* context, Untimed reason) {
  TakeOver(state, context);
  while (context->waiting.head != nullptr) {
    EventPair* pair = context->waiting.head;
    context->waiting.head = pair->next;
    PutBack(state, pair);
    CountUntimed(state, reason);
  }
}

void SetPhase(EventState* state, EventContext* context, ContextPhase phase) {
  SpinLockHolder holder(&state->lock);
  context->phase = phase;
}

void CollectAll(const Collector& collector) {
  EventState* state = collector.state;
  if (state->driver_state.load(std::memory_order_acquire) != 2) return;
  SpinLockHolder collecting(&state->collecting);
  CaptureTolerant tolerant(state->driver);
  for (EventContext& context : state->contexts) {
    if (context.phase.load() != ContextPhase::kReady) continue;
    CurrentContext current(state->driver, context.context);
    if (current.ok() && CollectContext(collector, &context)) {
      RefreshAnchor(state, &context);
      continue;
    }
    // Its events can't be destroyed either.
    SetPhase(state, &context, ContextPhase::kLost);
    DropWaiting(state, &context, Untimed::kContextEnded);
  }
}

bool AnythingWaits(EventState* state) {
  SpinLockHolder collecting(&state->collecting);
  for (EventContext& context : state->contexts) {
    if (context.waiting.head != nullptr) return true;
  }
  return false;
}

// Threads inside leave after one or two driver calls.
void WaitUntilLeft(const EventContext& context) {
  constexpr int kMostYields = 100000;
  for (int i = 0; i < kMostYields && context.inside.load(std::memory_order_acquire) != 0; ++i) sched_yield();
}

// The place is as new, except for `generation`.
void Forget(EventContext* context) {
  for (uint32_t i = 0; i < context->pairs_made; ++i) context->pairs[i].start = context->pairs[i].stop = nullptr;
  for (EventAnchor& anchor : context->anchors) anchor = {};
  context->context = context->own_stream = context->spare_event = nullptr;
  context->free = nullptr;
  context->pending = context->waiting = {};
  context->pairs_made = context->anchor = 0;
}

// With `collecting` held.
void EndContext(const Collector& collector, EventContext* context) {
  EventState* state = collector.state;
  bool usable = context->phase.load() == ContextPhase::kReady;
  SetPhase(state, context, ContextPhase::kEnding);
  WaitUntilLeft(*context);
  {
    CurrentContext current(state->driver, context->context);
    usable = usable && current.ok() && CollectContext(collector, context);
    DropWaiting(state, context, Untimed::kContextEnded);
    if (usable) CloseContext(state->driver, context);
  }
  Forget(context);
  SpinLockHolder holder(&state->lock);
  ++context->generation;
  context->phase = ContextPhase::kFree;
}

const char* const kReasons[] = {"no stream or context known",        "too many were under way",
                                "the driver refused an event",       "the context ended",
                                "one NCCL group on several streams", "under way at the end"};
static_assert(sizeof kReasons / sizeof *kReasons == static_cast<size_t>(Untimed::kCount));

void ReportUntimed(EventState* state) {
  char text[256];
  size_t used = 0;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Untimed::kCount); ++i) {
    uint64_t count = state->untimed[i].load(std::memory_order_relaxed);
    if (count == 0 || used >= sizeof text) continue;
    const char* before = used == 0 ? "calls without times: " : ", ";
    used += static_cast<size_t>(snprintf(text + used, sizeof text - used, "%s%lu (%s)", before, count, kReasons[i]));
  }
  if (used == 0) return;
  bool has_driver = state->driver_state.load(std::memory_order_acquire) == 2;
  ReportCapability("gpu-events", "", has_driver ? CapabilityState::kOn : CapabilityState::kAbsent,
                   has_driver ? text : kNoDriver);
}

}  // namespace

bool StartEvents() {
  EventState* state = NewEventState();
  if (state != nullptr) g_gpu_events.store(1, std::memory_order_relaxed);
  return state != nullptr;
}

void CollectEvents(ThreadState* own) {
  EventState* state = LiveEventState();
  if (state != nullptr && GpuEventsOn()) CollectAll({state, own, true});
}

void FinishEvents(ThreadState* own) {
  EventState* state = LiveEventState();
  if (state == nullptr || g_gpu_events.exchange(0) == 0) return;
  for (int i = 0;; ++i) {
    CollectAll({state, own, true});
    if (i == kLongestEventWaitMs || !AnythingWaits(state)) break;
    SleepFor(1'000'000);
  }
  for (EventContext& context : state->contexts) DropWaiting(state, &context, Untimed::kPending);
  ReportUntimed(state);
  if (own != nullptr) FlushRegistry(own);
}

void EndEventContexts(EventState* state, ThreadState* thread, const void* context) {
  if (state->driver_state.load(std::memory_order_acquire) != 2) return;
  SpinLockHolder collecting(&state->collecting);
  CaptureTolerant tolerant(state->driver);
  for (EventContext& known : state->contexts) {
    bool is_open = known.phase == ContextPhase::kReady || known.phase == ContextPhase::kLost;
    if (is_open && (context == nullptr || known.context == context)) EndContext({state, thread, false}, &known);
  }
}

}  // namespace dlhook::inline gpu
