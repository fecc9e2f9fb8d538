// The timeline of the fake devices on the host's clock: work begins a launch latency after it was requested, or after
// its stream's previous work. README.md has the rules and the note `gpu=`.
#include "activity.h"

#include <time.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace fake {
namespace {

constexpr int64_t kLaunchLatency = 2000;  // ns

std::atomic<Observer*> observer{nullptr};
std::atomic<uint32_t> next_correlation{1};
std::atomic<uint32_t> next_stream{7};  // as CUPTI numbers the first context's default stream
std::atomic<uint32_t> next_event{1};
thread_local Api* innermost_api;
thread_local bool in_observer;  // calls made by an observer are not reported to it
std::mutex lock;

int64_t Clock() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

bool Waits() {
  static const bool waits = Switch("WAITS");
  return waits;
}

// DLHOOK_FAKE_CUPTI_JUMP=ACTIVITIES:NANOSECONDS
struct Jump {
  int64_t after = 0, nanoseconds = 0;
  std::atomic<int64_t> activities{0};

  Jump() {
    const char* text = Setting("CUPTI_JUMP", "0:0");
    if (sscanf(text, "%" SCNd64 ":%" SCNd64, &after, &nanoseconds) == 2) return;
    fprintf(stderr, "DLHOOK_FAKE_CUPTI_JUMP: found '%s', expected ACTIVITIES:NANOSECONDS\n", text);
    abort();
  }
  int64_t offset() const { return activities >= after ? nanoseconds : 0; }
};

Jump& TheJump() {
  static auto* jump = new Jump;
  return *jump;
}

// Calls the observer unless this thread is in it.
template <class Function>
void Inform(const Function& function) {
  Observer* told = observer.load(std::memory_order_acquire);
  if (told == nullptr || in_observer) return;
  in_observer = true;
  function(told);
  in_observer = false;
}

void NoteActivity(const Activity& activity) {
  const Node& work = activity.work;
  char name[8] = "-";
  if (activity.kind == Activity::kCopy)
    snprintf(name, sizeof name, "%s>%s", Letter(work.source), Letter(work.destination));
  const bool named = activity.kind == Activity::kKernel && work.name != nullptr;
  Note("gpu=%c:%d:%u:%" PRId64 ":%" PRId64 ":%" PRId64 ":%u:%" PRIu64 ":%u:%zu:%s", "KCSG"[activity.kind],
       activity.device, activity.stream, activity.start_ns, activity.end_ns, activity.requested_ns,
       activity.correlation, activity.node, activity.graph, work.bytes, named ? work.name : name);
}

void Identify(Stream* stream) {
  if (stream->id == 0) stream->id = next_stream++;
}

void SleepUntil(int64_t completes_ns) {
  if (!Waits()) return;
  timespec until;
  until.tv_sec = completes_ns / 1000000000;
  until.tv_nsec = completes_ns % 1000000000;
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

void Wait(Waited waited, int64_t completes_ns, bool told) {
  waited.start_ns = RealTime();
  SleepUntil(completes_ns);
  waited.end_ns = RealTime();
  waited.correlation = innermost_api != nullptr ? innermost_api->correlation : 0;
  if (told) Inform([&](Observer* to) { to->HasWaited(waited); });
}

}  // namespace

int64_t RealTime() { return Clock() + TheJump().offset(); }

bool SetObserver(Observer* fresh) {
  Observer* expected = nullptr;
  return observer.compare_exchange_strong(expected, fresh) || expected == fresh;
}

void RemoveObserver(Observer* old) { observer.compare_exchange_strong(old, nullptr); }

int64_t Slowed(int64_t nanoseconds) {
  static const double factor = atof(Setting("SLOW", "1"));
  return factor == 1 ? nanoseconds : static_cast<int64_t>(static_cast<double>(nanoseconds) * factor);
}

// --- calls ---

void EnterApi(Api* api) {
  api->outer = innermost_api;
  innermost_api = api;
  api->correlation = api->outer != nullptr ? api->outer->correlation : next_correlation++;
  Inform([&](Observer* told) {
    api->start_ns = RealTime();
    told->Enter(api);
  });
}

void ExitApi(Api* api) {
  Inform([&](Observer* told) { told->Exit(api); });
  innermost_api = api->outer;
}

InnerApi::InnerApi(const char* function, const char* symbol) {
  if (innermost_api != nullptr && !innermost_api->runtime) return;
  entered_ = true;
  api_.function = function;
  api_.symbol = symbol;
  EnterApi(&api_);
}

InnerApi::~InnerApi() {
  if (entered_) ExitApi(&api_);
}

void Tell(const ResourceEvent& event) {
  Inform([&](Observer* told) { told->Happened(event); });
}

// --- work ---

void Place(Stream* stream, const Node& node, uint32_t graph) {
  static const Activity::Kind kinds[] = {Activity::kKernel, Activity::kCopy, Activity::kSet};
  if (node.kind > Node::kSet) return;
  UseContext(stream->device);
  Activity activity;
  activity.kind = kinds[node.kind];
  activity.work = node;
  activity.node = graph != 0 ? node.id : 0;
  activity.graph = graph;
  activity.device = stream->device;
  activity.correlation = innermost_api != nullptr ? innermost_api->correlation : 0;
  {
    const std::lock_guard<std::mutex> guard(lock);
    Identify(stream);
    activity.stream = stream->id;
    const int64_t now = Clock();
    const int64_t earliest = now + kLaunchLatency;
    const int64_t start = stream->completes_ns > earliest ? stream->completes_ns : earliest;
    stream->completes_ns = start + node.nanoseconds;
    const int64_t offset = TheJump().offset();
    activity.requested_ns = now + offset;
    ++TheJump().activities;
    activity.start_ns = start + offset;
    activity.end_ns = stream->completes_ns + offset;
    activity.completes_ns = Waits() ? stream->completes_ns : 0;
  }
  NoteActivity(activity);
  Inform([&](Observer* told) { told->Ran(activity); });
}

void PlaceGraph(Stream* stream, int64_t start_ns, uint32_t graph) {
  Activity activity;
  activity.kind = Activity::kGraph;
  activity.graph = graph;
  activity.device = stream->device;
  activity.stream = stream->id;
  activity.correlation = innermost_api != nullptr ? innermost_api->correlation : 0;
  activity.start_ns = start_ns;
  activity.end_ns = stream->completes_ns + TheJump().offset();
  activity.completes_ns = Waits() ? stream->completes_ns : 0;
  NoteActivity(activity);
  Inform([&](Observer* told) { told->Ran(activity); });
}

uint32_t IdOfStream(const void* handle) {
  Stream* stream = StreamOf(handle);
  const std::lock_guard<std::mutex> guard(lock);
  Identify(stream);
  return stream->id;
}

int64_t EarliestStart(const Stream* stream) {
  const std::lock_guard<std::mutex> guard(lock);
  const int64_t earliest = Clock() + kLaunchLatency;
  return (stream->completes_ns > earliest ? stream->completes_ns : earliest) + TheJump().offset();
}

void RecordOnTimeline(Event* event, const Stream* stream) {
  const int64_t now = Clock();
  event->completes_ns = stream->completes_ns > now ? stream->completes_ns : now;
  if (event->id == 0) event->id = next_event++;
}

void WaitOnTimeline(Stream* stream, const Event* event) {
  Waited waited;
  waited.what = Waiting::kStreamForEvent;
  waited.start_ns = RealTime();
  {
    const std::lock_guard<std::mutex> guard(lock);
    Identify(stream);
    if (stream->completes_ns < event->completes_ns) stream->completes_ns = event->completes_ns;
  }
  waited.end_ns = RealTime();
  waited.device = stream->device;
  waited.stream = stream->id;
  waited.event = event->id;
  waited.correlation = innermost_api != nullptr ? innermost_api->correlation : 0;
  Inform([&](Observer* told) { told->HasWaited(waited); });
}

// --- waiting ---

bool IsOver(int64_t completes_ns) { return !Waits() || Clock() >= completes_ns; }

void WaitForStream(const void* handle, bool told) {
  Stream* stream = StreamOf(handle);
  {
    const std::lock_guard<std::mutex> guard(lock);
    Identify(stream);
  }
  Waited waited;
  waited.what = Waiting::kStream;
  waited.device = stream->device;
  waited.stream = stream->id;
  Wait(waited, stream->completes_ns, told);
}

void WaitForDevice() {
  Waited waited;
  waited.device = CurrentDevice();
  Wait(waited, DeviceCompletes(waited.device), true);
}

void WaitForEvent(const Event* event) {
  Waited waited;
  waited.what = Waiting::kEvent;
  waited.device = CurrentDevice();
  waited.event = event->id;
  Wait(waited, event->completes_ns, true);
}

}  // namespace fake
