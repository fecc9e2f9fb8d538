// Counters of perf_event over time: groups on other threads, read by the sampler. Only for threads that don't read
// these counters themselves: a second group would take the processor's registers from theirs.
// Thread: the drain's; descriptors in its own table.
#pragma once

#include "preload/counters/perf_group.h"
#include "preload/drain/drain.h"

namespace dlhook::inline drain {

class PerfSampler {
 public:
  static constexpr uint32_t kMaxGroups = 4;
  static constexpr uint32_t kHeldReadings = 16;

  struct Thread {
    bool is_open;
    PerfGroup groups[kMaxGroups];
    uint32_t held_count[kMaxGroups];
    CounterReading held[kMaxGroups][kHeldReadings];
  };

  PerfSampler() = default;
  ~PerfSampler();
  PerfSampler(const PerfSampler&) = delete;
  PerfSampler& operator=(const PerfSampler&) = delete;

  // Determines which of the counters it will sample, for up to `threads` threads; reports to the trace which it can't.
  // False: none.
  bool Open(const CounterSpec* const* specs, size_t count, uint32_t threads, Drain* drain);
  // Thread number `index` counts from now on.
  void Begin(uint32_t index, uint32_t tid, Drain* drain);
  void Sample(uint32_t index, uint64_t ticks, uint32_t thread_id, uint32_t tid, Drain* drain);
  void HandOver(uint32_t index, uint32_t thread_id, uint32_t tid, Drain* drain);
  // Moves thread number `last` to its place.
  void End(uint32_t index, uint32_t last);

 private:
  void DescribeGroups();
  void CloseThread(Thread* thread);

  CounterList list_ = {};  // what `events` point to
  PerfGroups groups_ = {};
  uint32_t first_[kMaxGroups] = {};  // event of each group
  char names_[kMaxGroups][kMaxCountersOfSet * sizeof(CounterSpec::name)] = {};
  Thread* threads_ = nullptr;
  uint32_t capacity_ = 0;
  bool has_complained_ = false;
};

}  // namespace dlhook::inline drain
