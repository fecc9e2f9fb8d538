// The TraceMe tap: TensorFlow reports which nodes of its graphs its executor runs, by the user's layer names.
//
// Every node, step of the input pipeline and eager op is inside a tsl::profiler::TraceMe, which checks a level
// (g_trace_level, exported) and, if tracing is on, passes an Event to TraceMeRecorder::Record when it ends. The tap
// raises the level as soon as it sees TensorFlow's library, and interposes Record (trace_me_hooks.cc): each event
// becomes a scope that ends now, and is not kept by TensorFlow. The user's own profiler (TraceMeRecorder::Start, Stop:
// interposed too) finds the recorder as it would be without dlhook, and gets every event while it runs.
// Thread: any application thread.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline tap {

// TraceMeRecorder::Event: a std::string of libstdc++ (the ABI of 2015), then two times of CLOCK_REALTIME. A time of 0
// or less marks one half of an event that begins and ends in two places.
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

// Whether this memory can be an event: detects another layout of the class. `now_ns`: CLOCK_REALTIME. Pure:
// unit-tested.
bool IsPlausibleEvent(const TraceMeEvent& event, int64_t now_ns);

// An event with a beginning and an end that differ.
inline bool IsWholeEvent(const TraceMeEvent& event) { return event.start_ns > 0 && event.end_ns > event.start_ns; }

// The parts of an event's name: without the values that TensorFlow appends ("Iterator::Map#id=7#", which differ from
// event to event), and whether it names a node ("path/of/node:KernelType"). Pure: unit-tested.
struct TraceMeName {
  size_t bytes;
  ScopeKind kind;
};
TraceMeName ParseTraceMeName(const char* name, size_t bytes);

}  // namespace dlhook::inline tap
