// The tests' own CUDA driver, with as much as event pairs need: a clock per stream, work that completes when the test
// says so, functions that fail.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "preload/format/gpu_records.h"
#include "preload/format/record.h"
#include "preload/gpu/event_pool.h"

namespace dlhook {

struct FakeEvent {
  uintptr_t stream = 0;
  int64_t ns = -1;  // of the stream's clock; not recorded
  int record = 0;   // how many were recorded on the stream before it
};

struct FakeDriver {
  std::map<uintptr_t, int64_t> clock;   // of streams
  std::map<uintptr_t, int> records;     // on streams
  std::map<uintptr_t, int> unfinished;  // records from this one on are not reached
  std::map<std::string, int> failing;   // function: status
  std::map<std::string, int> calls;
  std::vector<uintptr_t> recorded;  // streams, in order; without those created by dlhook
  std::map<uintptr_t, int> captured;
  std::map<uintptr_t, void*> stream_contexts;
  std::vector<void*> current = {reinterpret_cast<void*>(0xc0)};
  int mode = 0;
  int events = 0;  // alive
  int streams = 0;
  std::vector<GpuActivityRecord> written;
};
inline FakeDriver* g_fake;
// All that were ever created: those of a context that ends are never destroyed by their owner.
inline std::deque<FakeEvent> g_fake_events;

constexpr uintptr_t kOwnStream = 0x5000;

inline int Status(const char* function) {
  ++g_fake->calls[function];
  auto found = g_fake->failing.find(function);
  return found == g_fake->failing.end() ? 0 : found->second;
}

inline int EventCreate(void** event, unsigned flags) {
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(g_fake->mode, 2) << "made where another thread's capture would fail";
  if (int status = Status("create")) return status;
  ++g_fake->events;
  *event = &g_fake_events.emplace_back();
  return 0;
}
inline int EventDestroy(void*) {
  --g_fake->events;
  return Status("destroy");
}
inline int EventRecord(void* event, void* stream) {
  auto handle = reinterpret_cast<uintptr_t>(stream);
  if (int status = handle == kOwnStream ? 0 : Status("record")) return status;
  if (handle != kOwnStream) g_fake->recorded.push_back(handle);
  *static_cast<FakeEvent*>(event) = {handle, g_fake->clock[handle], g_fake->records[handle]++};
  return 0;
}
inline int EventQuery(void* event) {
  if (int status = Status("query")) return status;
  EXPECT_EQ(g_fake->mode, 2);
  const auto* asked = static_cast<FakeEvent*>(event);
  auto limit = g_fake->unfinished.find(asked->stream);
  return limit != g_fake->unfinished.end() && asked->record >= limit->second ? kDriverNotReady : 0;
}
inline int EventElapsed(float* milliseconds, void* start, void* end) {
  if (int status = Status("elapsed")) return status;
  *milliseconds = static_cast<float>(static_cast<FakeEvent*>(end)->ns - static_cast<FakeEvent*>(start)->ns) / 1e6f;
  return 0;
}
inline int StreamCreate(void** stream, unsigned flags) {
  EXPECT_EQ(flags, 1u);
  ++g_fake->streams;
  *stream = reinterpret_cast<void*>(kOwnStream);
  return Status("stream_create");
}
inline int StreamDestroy(void*) {
  --g_fake->streams;
  return 0;
}
inline int StreamContext(void* stream, void** context) {
  auto found = g_fake->stream_contexts.find(reinterpret_cast<uintptr_t>(stream));
  *context = found != g_fake->stream_contexts.end() ? found->second : g_fake->current.back();
  return Status("stream_context");
}
inline int StreamIsCapturing(void* stream, int* status) {
  *status = g_fake->captured[reinterpret_cast<uintptr_t>(stream)];
  return Status("is_capturing");
}
inline int ExchangeMode(int* mode) {
  std::swap(*mode, g_fake->mode);
  return 0;
}
inline int ContextCurrent(void** context) {
  *context = g_fake->current.back();
  return 0;
}
inline int ContextPush(void* context) {
  g_fake->current.push_back(context);
  return 0;
}
inline int ContextPop(void** context) {
  *context = g_fake->current.back();
  g_fake->current.pop_back();
  return 0;
}
inline int ContextDevice(int* device) {
  *device = g_fake->current.back() == reinterpret_cast<void*>(0xc0) ? 0 : 1;
  return 0;
}

inline EventDriver TheFakeDriver() {
  EventDriver driver;
  driver.event_create = EventCreate;
  driver.event_destroy = EventDestroy;
  driver.event_record = EventRecord;
  driver.event_query = EventQuery;
  driver.event_elapsed = EventElapsed;
  driver.stream_create = StreamCreate;
  driver.stream_destroy = StreamDestroy;
  driver.stream_context = StreamContext;
  driver.stream_is_capturing = StreamIsCapturing;
  driver.exchange_capture_mode = ExchangeMode;
  driver.context_current = ContextCurrent;
  driver.context_push = ContextPush;
  driver.context_pop = ContextPop;
  driver.context_device = ContextDevice;
  return driver;
}

}  // namespace dlhook
