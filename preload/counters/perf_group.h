// A group of perf events on one thread: opened together, read together.
// Thread: any; of a group the one that opened it. System calls, no allocation. Used by the shim for the calling thread
// and by who samples (drain/counter_sampler.h) for others.
#ifndef DLHOOK_PRELOAD_COUNTERS_PERF_GROUP_H_
#define DLHOOK_PRELOAD_COUNTERS_PERF_GROUP_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "preload/counters/counter_names.h"
#include "preload/format/record.h"

struct perf_event_mmap_page;

namespace dlhook::inline counters {

// How an event is to be opened.
struct PerfEvent {
  const CounterSpec* spec;
  bool user_only;  // the kernel lets us count no more than that
};

struct PerfGroup {
  uint32_t count;  // 0: not open
  bool is_mapped;  // read by rdpmc: there are no descriptors any more
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

// Opens all or, with errno, none. `tid` 0: the calling thread. `in_host_table`: the descriptors get high numbers that
// the program does not come upon, and only so many of them.
bool OpenPerfGroup(const PerfEvent* events, uint32_t count, pid_t tid, bool in_host_table, PerfGroup* group);

// Maps the events' pages and closes the descriptors, where all counters can then be read without a system call.
bool MapPerfGroup(PerfGroup* group);

// False, with errno, where it could not be read: EBADF where a descriptor is not ours any more.
bool ReadPerfGroup(const PerfGroup& group, PerfReading* reading);

// Leaves alone what is not ours any more.
void ClosePerfGroup(PerfGroup* group);

// The order in which events can form groups: `slots` last, but for the metrics that only a group of its counts. Pure.
void ArrangePerfEvents(PerfEvent* events, uint32_t count);
// How many of these events, as arranged, may be in one group. Pure.
uint32_t LongestPerfGroup(const PerfEvent* events, uint32_t count);

// Divides events into groups that the processor can count at once, as this machine allows for the calling thread. Puts
// them into `events`, group after group, `group_sizes` long; returns the number of groups. Those that can't be opened
// are told to `refuse`.
struct PerfGroups {
  PerfEvent events[kMaxCounters];
  uint32_t sizes[kMaxCounters];
  uint32_t count;
};
using RefuseCounter = void (*)(void* context, const CounterSpec& spec, const char* reason);
void DividePerfGroups(const CounterSpec* const* specs, size_t count, RefuseCounter refuse, void* context,
                      PerfGroups* groups);

// A clause for people: why perf_event_open failed with this errno.
void ExplainPerfError(const CounterSpec& spec, int error, char* reason, size_t size);

}  // namespace dlhook::inline counters

#endif  // DLHOOK_PRELOAD_COUNTERS_PERF_GROUP_H_
