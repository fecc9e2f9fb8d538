// Reads a processor's counter without a system call: from the page that the kernel maps for a perf event, and by rdpmc.
// The protocol is that of <linux/perf_event.h>: the kernel increments `lock` before and after it writes.
// Thread: the one for which the event counts.
#pragma once

#include <linux/perf_event.h>

#include <atomic>
#include <cstdint>

namespace dlhook::inline counters {

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

}  // namespace dlhook::inline counters
