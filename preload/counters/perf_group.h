// A group of perf events on one thread: opened together, read together.
// Thread: any; a group is used only by the thread that opened it. System calls, no allocation. Used by the shim for the
// calling thread, and by the sampler (drain/counter_sampler.h) for others.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "preload/counters/counter_names.h"
#include "preload/format/record.h"

struct perf_event_mmap_page;

namespace dlhook::inline counters {

// How to open an event.
struct PerfEvent {
  const CounterSpec* spec;
  bool user_only;  // the kernel allows only user mode
};

struct PerfGroup {
  uint32_t count;  // 0: not open
  bool is_mapped;  // read by rdpmc; its descriptors are closed
  bool in_host_table;
  int fds[kMaxCountersOfSet];
  uint64_t ids[kMaxCountersOfSet];
  perf_event_mmap_page* pages[kMaxCountersOfSet];
};

struct PerfReading {
  uint64_t enabled_ns;
  uint64_t running_ns;
  uint64_t values[kMaxCountersOfSet];
};

// Opens all or, with errno, none. `tid` 0: the calling thread. `in_host_table`: descriptors get high numbers that the
// program does not use, and are limited in number.
bool OpenPerfGroup(const PerfEvent* events, uint32_t count, pid_t tid, bool in_host_table, PerfGroup* group);

// If all counters can be read without a system call, maps the events' pages and closes the descriptors.
bool MapPerfGroup(PerfGroup* group);

// False, with errno, if it could not be read: EBADF if a descriptor is no longer the shim's.
bool ReadPerfGroup(const PerfGroup& group, PerfReading* reading);

// Leaves descriptors alone that are no longer the shim's.
void ClosePerfGroup(PerfGroup* group);

// Orders events for grouping: `slots` last, followed only by the metrics that require its group. Pure.
void ArrangePerfEvents(PerfEvent* events, uint32_t count);
// How many of these events, as arranged, can be in one group. Pure.
uint32_t LongestPerfGroup(const PerfEvent* events, uint32_t count);

// Divides events into groups that the processor can count at once, as this machine allows for the calling thread. Puts
// them into `events`, group by group, with lengths `group_sizes`; returns the number of groups. Calls `refuse` for
// those that can't be opened.
struct PerfGroups {
  PerfEvent events[kMaxCounters];
  uint32_t sizes[kMaxCounters];
  uint32_t count;
};
using RefuseCounter = void (*)(void* context, const CounterSpec& spec, const char* reason);
void DividePerfGroups(const CounterSpec* const* specs, size_t count, RefuseCounter refuse, void* context,
                      PerfGroups* groups);

// A clause for the user: why perf_event_open failed with this errno.
void ExplainPerfError(const CounterSpec& spec, int error, char* reason, size_t size);

}  // namespace dlhook::inline counters
