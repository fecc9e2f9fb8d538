// See event_anchor.h.
#include "preload/gpu/event_anchor.h"

#include "preload/format/clock.h"

namespace dlhook::inline gpu {
namespace {

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
