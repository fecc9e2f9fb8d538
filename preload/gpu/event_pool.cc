#include "preload/gpu/event_pool.h"

#include <sched.h>

#include "preload/base/own_pages.h"
#include "preload/format/clock.h"
#include "preload/link/dlsym.h"
#include "preload/link/resolver.h"

namespace dlhook::inline gpu {
namespace {

constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

std::atomic<EventState*> g_state{nullptr};

// Null if there are too many contexts.
EventContext* FindOrReserve(EventState* state, void* context, bool* is_new) {
  SpinLockHolder holder(&state->lock);
  EventContext* place = nullptr;
  for (EventContext& known : state->contexts) {
    if (known.phase == ContextPhase::kFree) {
      if (place == nullptr) place = &known;
    } else if (known.context == context) {
      return &known;
    }
  }
  if (place == nullptr) return nullptr;
  *is_new = true;
  place->context = context;
  place->phase = ContextPhase::kOpening;
  place->number = ++state->contexts_made;
  return place;
}

// Another thread needs a fraction of a millisecond for it.
void WaitUntilOpened(const EventContext& context) {
  constexpr int kMostYields = 10000;
  for (int i = 0; i < kMostYields && context.phase.load() == ContextPhase::kOpening; ++i) sched_yield();
}

// Outside the lock, because it calls the driver. No other thread touches a context that is being opened.
void Open(EventState* state, EventContext* context) {
  bool opened = OpenContext(state->driver, context);
  SpinLockHolder holder(&state->lock);
  context->phase = opened ? ContextPhase::kReady : ContextPhase::kLost;
}

bool MakeEvents(const EventDriver& driver, EventPair* pair) {
  CaptureTolerant tolerant(driver);
  CurrentContext current(driver, pair->context->context);
  constexpr unsigned kDefaultFlags = 0;  // with times, and waiting by polling
  if (!current.ok() || driver.event_create(&pair->start, kDefaultFlags) != kDriverSuccess) return false;
  if (driver.event_create(&pair->stop, kDefaultFlags) == kDriverSuccess) return true;
  driver.event_destroy(pair->start);
  pair->start = nullptr;
  return false;
}

EventPair* TakeFree(EventContext* context) {
  if (context->free != nullptr) {
    EventPair* pair = context->free;
    context->free = pair->next;
    return pair;
  }
  return context->pairs_made < kEventPairs ? &context->pairs[context->pairs_made++] : nullptr;
}

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING: independent of the legacy stream
constexpr int kTries = 5;
constexpr uint64_t kGoodEnoughNs = 4000;
constexpr uint64_t kLongestTryNs = 2 * 1000 * 1000;
constexpr uint64_t kAnchorLifeNs = 1000 * 1000 * 1000;

struct Reading {
  uint64_t host_ns;
  uint64_t between_ns;
};

// Records `event` on our stream and waits until it is reached; false if that takes too long.
bool Reach(const EventDriver& driver, void* event, void* stream, Reading* reading) {
  uint64_t before_ns = ClockNanoseconds(CLOCK_REALTIME);
  if (driver.event_record(event, stream) != kDriverSuccess) return false;
  for (;;) {
    int status = driver.event_query(event);
    uint64_t after_ns = ClockNanoseconds(CLOCK_REALTIME);
    uint64_t between_ns = after_ns > before_ns ? after_ns - before_ns : 0;
    if (status == kDriverSuccess) {
      *reading = {before_ns + between_ns / 2, between_ns};
      return true;
    }
    if (status != kDriverNotReady || between_ns > kLongestTryNs) return false;
  }
}

bool Make(const EventDriver& driver, void** event) {
  return *event != nullptr || driver.event_create(event, 0) == kDriverSuccess;
}

// The better of two events stays in the anchor, the other becomes the context's spare.
bool TakeAnchor(const EventDriver& driver, EventContext* context, EventAnchor* anchor) {
  if (!Make(driver, &anchor->event) || !Make(driver, &context->spare_event)) return false;
  Reading best = {0, ~uint64_t{0}};
  for (int i = 0; i < kTries && best.between_ns > kGoodEnoughNs; ++i) {
    Reading reading;
    if (!Reach(driver, context->spare_event, context->own_stream, &reading)) break;
    if (reading.between_ns >= best.between_ns) continue;
    best = reading;
    void* worse = anchor->event;
    anchor->event = context->spare_event;
    context->spare_event = worse;
  }
  anchor->host_ns = best.host_ns;
  context->anchored_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  return best.host_ns != 0;
}

void Destroy(const EventDriver& driver, void** event) {
  if (*event != nullptr) driver.event_destroy(*event);
  *event = nullptr;
}

}  // namespace

bool EventDriver::Load() {
  ErrnoKeeper keeper;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *this = library == nullptr ? EventDriver() : EventDriver({&RealDlsym, library});
  // Kept open: pairs are queried on our thread, even after the program has closed it.
  if (library != nullptr && !is_complete()) RealDlclose(library);
  return is_complete();
}

CaptureTolerant::CaptureTolerant(const EventDriver& driver) : driver_(driver), mode_(kRelaxed) {
  exchanged_ = driver.exchange_capture_mode != nullptr && driver.exchange_capture_mode(&mode_) == kDriverSuccess;
}

CaptureTolerant::~CaptureTolerant() {
  if (exchanged_) driver_.exchange_capture_mode(&mode_);
}

EventState* LiveEventState() {
  EventState* state = g_state.load(std::memory_order_acquire);
  return state != nullptr && state->active.load(std::memory_order_relaxed) != 0 ? state : nullptr;
}

EventState* NewEventState() {
  if (g_state.load(std::memory_order_acquire) != nullptr) return LiveEventState();
  void* memory = MapOwnPages(sizeof(EventState));
  if (memory == nullptr) return nullptr;
  auto state = static_cast<EventState*>(memory);
  EventState* none = nullptr;
  bool wiped = madvise(memory, sizeof(EventState), MADV_WIPEONFORK) == 0;
  if (wiped) state->active.store(1, std::memory_order_relaxed);
  if (wiped && g_state.compare_exchange_strong(none, state, std::memory_order_acq_rel)) return state;
  munmap(memory, sizeof(EventState));
  return LiveEventState();
}

EventContext* ContextOf(EventState* state, void* context) {
  bool is_new = false;
  EventContext* found = FindOrReserve(state, context, &is_new);
  if (found != nullptr && !is_new) WaitUntilOpened(*found);
  if (is_new) Open(state, found);
  if (found != nullptr && found->phase.load() == ContextPhase::kReady) return found;
  CountUntimed(state, Untimed::kNoContext);
  return nullptr;
}

EventPair* TakePair(EventState* state, EventContext* context, uint32_t* generation) {
  EventPair* pair = nullptr;
  {
    SpinLockHolder holder(&state->lock);
    if (context->phase == ContextPhase::kReady) pair = TakeFree(context);
    if (pair != nullptr) {
      context->inside.fetch_add(1, std::memory_order_relaxed);
      pair->context = context;
      pair->anchor = context->anchor;
      ++context->anchors[pair->anchor].users;
      *generation = context->generation;
    }
  }
  if (pair == nullptr) {
    CountUntimed(state, Untimed::kNoPair);
    return nullptr;
  }
  if (pair->start != nullptr || MakeEvents(state->driver, pair)) return pair;
  PutBack(state, pair);
  LeaveContext(context);
  CountUntimed(state, Untimed::kDriverFailed);
  return nullptr;
}

void LeaveContext(EventContext* context) { context->inside.fetch_sub(1, std::memory_order_release); }

bool EnterAgain(EventState* state, const EventPair* pair, uint32_t generation) {
  EventContext* context = pair->context;
  SpinLockHolder holder(&state->lock);
  if (context->generation != generation || context->phase != ContextPhase::kReady) return false;
  context->inside.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void PutBack(EventState* state, EventPair* pair) {
  SpinLockHolder holder(&state->lock);
  EventContext* context = pair->context;
  --context->anchors[pair->anchor].users;
  pair->next = context->free;
  context->free = pair;
}

void PutPending(EventState* state, EventPair* pair) {
  SpinLockHolder holder(&state->lock);
  Append(&pair->context->pending, pair);
}

uint32_t NumberOfStream(EventState* state, const EventContext& context, uintptr_t stream, uint32_t thread_id) {
  const EventStream wanted = {stream, context.number, stream == kPerThreadStream ? thread_id : 0};
  SpinLockHolder holder(&state->lock);
  // Most recent ones first: programs use few of their streams at a time.
  for (uint32_t i = state->streams_made; i > 0; --i) {
    const EventStream& known = state->streams[i - 1];
    bool same = known.handle == wanted.handle && known.context == wanted.context;
    if (same && known.thread_id == wanted.thread_id) return i;
  }
  if (state->streams_made < kEventStreams) state->streams[state->streams_made++] = wanted;
  return state->streams_made;
}

bool OpenContext(const EventDriver& driver, EventContext* context) {
  CaptureTolerant tolerant(driver);
  CurrentContext current(driver, context->context);
  int device = 0;
  if (!current.ok() || driver.context_device(&device) != kDriverSuccess) return false;
  context->device = static_cast<uint32_t>(device);
  if (driver.stream_create(&context->own_stream, kNonBlocking) != kDriverSuccess) return false;
  context->anchor = 0;
  if (TakeAnchor(driver, context, &context->anchors[0])) return true;
  CloseContext(driver, context);
  return false;
}

void RefreshAnchor(EventState* state, EventContext* context) {
  if (ClockNanoseconds(CLOCK_MONOTONIC) - context->anchored_ns < kAnchorLifeNs) return;
  uint32_t next = kEventAnchors;
  {
    SpinLockHolder holder(&state->lock);
    for (uint32_t i = 0; i < kEventAnchors; ++i) {
      if (i != context->anchor && context->anchors[i].users == 0) next = i;
    }
  }
  if (next == kEventAnchors || !TakeAnchor(state->driver, context, &context->anchors[next])) return;
  SpinLockHolder holder(&state->lock);
  context->anchor = next;
}

void CloseContext(const EventDriver& driver, EventContext* context) {
  for (uint32_t i = 0; i < context->pairs_made; ++i) {
    Destroy(driver, &context->pairs[i].start);
    Destroy(driver, &context->pairs[i].stop);
  }
  for (EventAnchor& anchor : context->anchors) {
    Destroy(driver, &anchor.event);
    anchor.users = 0;
  }
  Destroy(driver, &context->spare_event);
  if (context->own_stream != nullptr) driver.stream_destroy(context->own_stream);
  context->own_stream = nullptr;
}

}  // namespace dlhook::inline gpu
