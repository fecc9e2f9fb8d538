// Counters over time (DLHOOK_COUNTERS_MS): the drain reads counters of all threads of a recorded process, including
// those without recorded calls, and of the process as a whole. Independent of the threads' own readings
// (counters/counters.h). From outside, and also if no counters are wanted: what threads do (drain/proc_counters.h).
// Thread: the drain's. Makes system calls for every sample; keeps descriptors of /proc and of perf in the drain's own
// table. Limits its use of a processor.
#pragma once

#include "preload/counters/perf_group.h"
#include "preload/drain/drain.h"
#include "preload/drain/proc_counters.h"
#include "preload/format/session.h"

namespace dlhook::inline drain {

// Groups of perf events on other threads: only on those that don't read these counters themselves, because a second group would
// take the processor's registers from theirs.
class PerfSampler {
 public:
  static constexpr uint32_t kMaxGroups = 4;
  static constexpr uint32_t kHeldReadings = 16;

  // Valid when all zero.
  struct Thread {
    PerfGroup groups[kMaxGroups];  // of no events: not open
    uint32_t held_count[kMaxGroups];
    CounterReading held[kMaxGroups][kHeldReadings];
  };

  // Determines which of the counters it will sample; reports to the trace which it can't. False: none.
  bool Open(const CounterSpec* const* specs, size_t count, Drain* drain);
  // The thread counts from now on.
  void Begin(Thread* thread, uint32_t tid, Drain* drain);
  void Sample(Thread* thread, uint64_t ticks, uint32_t thread_id, uint32_t tid, Drain* drain);
  void HandOver(Thread* thread, uint32_t thread_id, uint32_t tid, Drain* drain);
  void End(Thread* thread);

 private:
  CounterList list_ = {};  // what `events` point to
  PerfGroups groups_ = {};
  uint32_t first_[kMaxGroups] = {};  // event of each group
  char names_[kMaxGroups][kMaxCountersOfSet * sizeof(CounterSpec::name)] = {};
  bool has_complained_ = false;
};

class CounterSampler {
 public:
  CounterSampler() = default;
  ~CounterSampler() { Close(); }
  CounterSampler(const CounterSampler&) = delete;
  CounterSampler& operator=(const CounterSampler&) = delete;

  // Does nothing if there is nothing to sample. `is_own_process`: clocks of its threads are directly available.
  void Open(SessionHeader* session, bool is_own_process, Drain* drain, BlockedObserver observer = {});
  // Takes a sample if it is due.
  void Step(Drain* drain);
  // Takes a last sample, if the process still exists, and passes everything to the drain.
  void Finish(Drain* drain);
  void Close();
  // How long until the next sample is due; UINT64_MAX: never.
  uint64_t NanosecondsToNext() const;

 private:
  static constexpr uint32_t kMaxThreads = 2048;
  static constexpr uint32_t kHeldReadings = 32;
  static constexpr uint32_t kHeldSeldom = 4;

  // The counters of a series: names and kinds.
  struct Series {
    char names[256];
    UsageField fields[kMaxCountersOfSet];
    uint32_t count;
  };
  struct Held {
    uint64_t ticks;
    Usage usage;
    ThreadStates states;
  };
  struct Thread {
    uint32_t tid;  // 0: the process as a whole
    uint32_t thread_id;
    bool is_alive;
    uint32_t listings_without;  // consecutive
    bool has_begun;
    bool may_be_renamed;
    bool ran_since_seldom;
    uint32_t idle_samples;
    uint64_t start_ticks;
    uint64_t start_jiffies;  // 0: not queried
    uint64_t next_look_ticks;
    uint64_t idle_ticks;  // since when it has been idle after its last reading; 0: not idle
    uint64_t look_ticks;  // of the last one
    uint64_t read_ticks;  // of the last reading
    uint64_t read_task_clock_ns;
    Usage last;
    ThreadStates states;
    ProcFiles files;
    uint32_t held_count;
    uint32_t held_seldom_count;
    Held held[kHeldReadings];
    Held held_seldom[kHeldSeldom];
  };

  void AddCounter(const char* name, size_t bytes);
  void Sample(Drain* drain, bool all);
  bool OpenDirectory();
  void ListThreads(Drain* drain);
  void NameThreads(Drain* drain);
  Thread* FindThread(uint32_t tid);
  void BeginThread(uint32_t tid, Drain* drain);
  void NameOwnThread(Drain* drain);
  // Only if wants_perf_.
  PerfSampler::Thread* PerfOf(const Thread* thread) const { return &perf_threads_[thread - threads_]; }
  void EndThread(Drain* drain, Thread* thread);
  bool ReadTaskClock(Thread* thread, uint64_t* task_clock_ns) const;
  void FindState(Thread* thread, uint64_t ticks) const;
  uint64_t TicksOf(uint64_t ms) const { return TicksPerSecond(*session_) * ms / 1000; }
  bool ReadFaults(Thread* thread, ProcStat* stat) const;
  void TellNameAgain(Drain* drain, Thread* thread) const;
  void ReadSeldom(Drain* drain, Thread* thread, uint64_t ticks);
  void Look(Drain* drain, Thread* thread, uint64_t ticks);
  bool HardlyRan(const Thread& thread, uint64_t ticks, uint64_t task_clock_ns) const;
  void LookAtProcess(Drain* drain, uint64_t ticks, bool is_last);
  void Hold(Drain* drain, Thread* thread, uint64_t ticks);
  void HoldIdle(Drain* drain, Thread* thread);
  void HandOver(Drain* drain, Thread* thread);
  void HandOverAll(Drain* drain);
  void Give(Drain* drain, const Thread& thread, const Series& series, const Held* held, uint32_t count);
  void GiveStates(Drain* drain, const Thread& thread);
  uint64_t TicksOfStart(uint64_t start_jiffies) const;

  SessionHeader* session_ = nullptr;
  BlockedObserver observer_;
  bool is_own_process_ = false;
  bool is_own_named_ = false;
  Series often_ = {};    // cheap ones: read for all threads at every sample
  Series seldom_ = {};   // expensive ones for threads
  Series process_ = {};  // of the process
  bool wants_faults_ = false;
  bool wants_switches_ = false;
  bool wants_migrations_ = false;
  bool wants_perf_ = false;
  bool is_rarely_ = false;  // no counters are wanted, and the time in which states are often looked at is over
  PerfSampler perf_;
  PerfSampler::Thread* perf_threads_ = nullptr;  // in the order of `threads_`; null: no counters of perf
  int directory_ = -1;
  Thread* threads_ = nullptr;  // [0] is the process
  uint32_t thread_count_ = 0;
  uint32_t cursor_ = 0;  // where FindThread starts
  uint64_t samples_ = 0;
  uint64_t interval_ticks_ = 0;
  uint64_t rarely_from_ticks_ = 0;  // when threads' states, if nothing else is wanted, get a longer interval
  uint64_t next_ticks_ = 0;
  uint64_t next_hand_over_ticks_ = 0;
};

}  // namespace dlhook::inline drain
