// A small version of TensorFlow's trace recorder, with the names that the real one exports. OTHER_LAYOUT: an event with
// a different layout.
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace tsl {
namespace profiler {
namespace internal {
extern std::atomic<int> g_trace_level;
std::atomic<int> g_trace_level{-1};
}  // namespace internal

class TraceMeRecorder {
 public:
  struct Event {
#ifdef OTHER_LAYOUT
    int64_t start_ns;
    int64_t end_ns;
    std::string name;
#else
    std::string name;
    int64_t start_ns;
    int64_t end_ns;
#endif
  };
  static void Record(Event&& event);
  static bool Start(int level);
  static void Stop();
};

static int kept = 0;

void TraceMeRecorder::Record(Event&&) { ++kept; }

bool TraceMeRecorder::Start(int level) {
  int disabled = -1;
  return internal::g_trace_level.compare_exchange_strong(disabled, level);
}

void TraceMeRecorder::Stop() { internal::g_trace_level = -1; }

}  // namespace profiler
}  // namespace tsl

using tsl::profiler::TraceMeRecorder;

static int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

static TraceMeRecorder::Event MakeEvent(const char* name, int64_t start_ns, int64_t end_ns) {
  TraceMeRecorder::Event event;
  event.name = name;
  event.start_ns = start_ns;
  event.end_ns = end_ns;
  return event;
}

// A node and one inside of it; the outer one is recorded late, as by a thread that lost its processor. A beginning, an end and a
// mark.
extern "C" void Run(const char* name) {
  if (tsl::profiler::internal::g_trace_level < 2) return;
  int64_t now = Now();
  TraceMeRecorder::Record(MakeEvent("net/inner:Relu", now - 700'000, now - 300'000));
  timespec nap = {0, 2'000'000};
  nanosleep(&nap, nullptr);
  TraceMeRecorder::Record(MakeEvent(name, now - 1'000'000, now));
  TraceMeRecorder::Record(MakeEvent("begin", now, -7));
  TraceMeRecorder::Record(MakeEvent("", -7, now));
  TraceMeRecorder::Record(MakeEvent("mark", now, now));
}

extern "C" bool StartSession() { return TraceMeRecorder::Start(2); }
extern "C" void StopSession() { TraceMeRecorder::Stop(); }
extern "C" int Kept() { return tsl::profiler::kept; }

// The result is kept so that the call returns here: a tail call's return address is the loader's.
static const char* volatile variable;
__attribute__((constructor)) static void OnLoad() { variable = getenv("TF_OF_THE_VICTIM"); }
