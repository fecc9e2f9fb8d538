// What a thread does, as the sampler's looks from outside find it (format/thread_states.h): how long it waited for a
// processor, which the kernel counts, and how long it was blocked and in what, which the looks estimate.
// Thread: the drain's. Reads files of /proc.
#pragma once

#include "preload/drain/drain.h"
#include "preload/drain/proc_counters.h"
#include "preload/format/thread_states.h"

namespace dlhook::inline drain {

// A look at a thread, and what it says of one that it found blocked.
struct BlockedLook {
  uint32_t tid;
  uint32_t thread_id;
  uint64_t since_ticks;  // the look before, for the time since which this one stands; 0: it is the first
  uint64_t ticks;
  uint64_t task_clock_ns;  // as long as it is the same, the thread did not run
  BlockedIn blocked_in = BlockedIn::kOther;
  const char* system_call = nullptr;  // the line of /proc/PID/task/TID/syscall
};
struct BlockedObserver {
  void (*see)(void* self, const BlockedLook& look) = nullptr;
  void* self = nullptr;
};

struct ThreadStates {
  uint64_t queued_ns;
  uint64_t blocked_ns[kBlockedIns];  // what the looks stand for that found it there
};

// Looks at the thread of `files`, tells the observer of a blocked one, and adds what this look stands for.
void LookAtThread(ProcFiles* files, BlockedLook look, uint64_t ticks_per_second, const BlockedObserver& observer,
                  ThreadStates* states);

// As values of kThreadStateList.
CounterReading StatesReading(uint64_t ticks, uint64_t task_clock_ns, const ThreadStates& states);

}  // namespace dlhook::inline drain
