// A group of perf events on one thread: opened together, read together.
// Thread: any; a group is used only by the thread that opened it. System calls, no allocation. Used by the shim for the
// calling thread, and by the sampler (drain/counter_sampler.h) for others.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include "preload/counters/counter_names.h"
#include "preload/format/record.h"

struct perf_event_mmap_page;

namespace dlhook::inline counters {

// Reads a processor's counter without a system call: from the page that the kernel maps for a perf event, and by rdpmc.
// The protocol is that of <linux/perf_event.h>: the kernel increments `lock` before and after it writes.
// Thread: the one for which the event counts.
struct PerfPageReading {
  uint64_t value;
  uint64_t enabled_ns;  // both 0 if the page does not allow to compute the time since it was written
  uint64_t running_ns;
};

// The instructions; replaced in tests.
struct ProcessorCounters {
  static uint64_t Pmc(uint32_t index) { return static_cast<uint64_t>(__builtin_ia32_rdpmc(static_cast<int>(index))); }
  static uint64_t Tsc() { return __builtin_ia32_rdtsc(); }
};

// Nanoseconds since the page was written.
inline uint64_t SincePageWasWritten(const volatile perf_event_mmap_page* page, uint64_t cycles) {
  if (page->cap_user_time_short) {
    cycles = page->time_cycles + ((cycles - page->time_cycles) & page->time_mask);
  }
  uint32_t shift = page->time_shift;
  uint64_t whole = cycles >> shift;
  uint64_t rest = cycles & ((uint64_t{1} << shift) - 1);
  return page->time_offset + whole * page->time_mult + ((rest * page->time_mult) >> shift);
}

// False if the page can't give the count: the event's counter may not be read, or the kernel never finished writing.
// While the event is not in a counter (index 0), the page has the full count.
template <typename Counters = ProcessorCounters>
bool ReadPerfPage(const volatile perf_event_mmap_page* page, PerfPageReading* reading) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    uint32_t sequence = page->lock;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!page->cap_user_rdpmc) return false;
    uint32_t index = page->index;
    uint64_t value = static_cast<uint64_t>(page->offset);
    uint64_t enabled = page->time_enabled;
    uint64_t running = page->time_running;
    bool knows_time = page->cap_user_time != 0;
    uint64_t since = knows_time ? SincePageWasWritten(page, Counters::Tsc()) : 0;
    if (index != 0) {
      uint32_t unused = 64u - page->pmc_width;
      uint64_t raw = Counters::Pmc(index - 1) << unused;
      value += static_cast<uint64_t>(static_cast<int64_t>(raw) >> unused);
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (page->lock != sequence) continue;
    bool is_whole = knows_time || enabled != running;
    *reading = {value, is_whole ? enabled + since : 0, is_whole ? running + (index != 0 ? since : 0) : 0};
    return true;
  }
  return false;
}

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
