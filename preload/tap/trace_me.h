// The TraceMe tap: TensorFlow tells which nodes of its graphs its executor runs, by the user's layer names.
//
// Every node, step of the input pipeline and eager op stands in a tsl::profiler::TraceMe, which looks at a level
// (g_trace_level, exported) and, where tracing is on, hands an Event to TraceMeRecorder::Record when it ends. We
// raise the level as soon as TensorFlow's library is seen, and interpose Record (trace_me_hooks.cc): each event
// becomes a scope that ends now, and is not kept by TensorFlow. The user's own profiler (TraceMeRecorder::Start,
// Stop: interposed too) finds the recorder as it would be without dlhook, and while it runs gets every event.
// Thread: any application thread.
#ifndef DLHOOK_PRELOAD_TAP_TRACE_ME_H_
#define DLHOOK_PRELOAD_TAP_TRACE_ME_H_

#include <cstddef>
#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline tap {

// TraceMeRecorder::Event: a std::string of libstdc++ (the ABI of 2015), then two times of CLOCK_REALTIME. A time of
// 0 or less stands for the other half of an event that begins and ends in two places.
struct TraceMeEvent {
  const char* name;
  size_t name_bytes;
  union {
    char short_name[16];
    size_t capacity;
  };
  int64_t start_ns;
  int64_t end_ns;
};
static_assert(sizeof(TraceMeEvent) == 48);

// Whether memory said to be an event can be one: tells another layout of the class. `now_ns`: CLOCK_REALTIME. Pure:
// unit-tested.
bool IsPlausibleEvent(const TraceMeEvent& event, int64_t now_ns);

// An event that says when it began and when it ended, and not the same moment.
inline bool IsWholeEvent(const TraceMeEvent& event) { return event.start_ns > 0 && event.end_ns > event.start_ns; }

// What an event's name says: without the values that TensorFlow appends ("Iterator::Map#id=7#" and the like, which
// differ from event to event), and whether it names a node ("path/of/node:KernelType"). Pure: unit-tested.
struct TraceMeName {
  size_t bytes;
  ScopeKind kind;
};
TraceMeName ParseTraceMeName(const char* name, size_t bytes);

}  // namespace dlhook::inline tap

#endif  // DLHOOK_PRELOAD_TAP_TRACE_ME_H_
