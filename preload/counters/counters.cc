// Open counters of a thread, and the records of their readings.
#include "preload/counters/counters.h"

#include "preload/counters/counter_plan.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline counters {
namespace {

// Between readings at scopes. One costs up to 1 us, so a thread spends at most a hundredth of its time on them; a user
// range is worth more than an operator.
constexpr uint64_t kScopesPerSecond = 10 * 1000;
constexpr uint64_t kUserRangesPerSecond = 40 * 1000;

}  // namespace

struct OpenSet {
  const PlannedSet* set;
  uint32_t definition;
  CounterSource source;  // actually used: kPerfRdpmc if the plan says kPerfRead and the pages allow it
  bool wants_clock;
  bool wants_counts;
  PerfGroup perf;
  int papi;
};

struct CounterThread {
  uint32_t owner;  // thread_id; another thread's: nothing is open
  uint32_t set_count;
  uint64_t last_ticks;
  uint64_t scope_ticks;  // minimum time between readings at scopes
  uint64_t user_range_ticks;
  uint64_t readings;       // begun so far: a signal handler may read while a reading is being made
  uint32_t is_in_library;  // PAPI must not be entered recursively; stays 1 if it was left by longjmp
  OpenSet sets[kMaxCounterSets];
};

namespace {

bool IsWanted() { return GetConfig().counters[0] != '\0'; }

CounterThread* MemoryOf(ThreadState* thread) {
  if (thread->counters != nullptr) return thread->counters;
  // Neither wiped nor removed in a child: a signal handler may fork while we write here, and return. The child's
  // ThreadState does not know of this memory.
  thread->counters = static_cast<CounterThread*>(MapOwnPages(sizeof(CounterThread)));
  return thread->counters;
}

// Reported for a set's first counter only: all share its fate.
void ReportLost(const PlannedSet& set, const char* reason) {
  ReportCounter(set.counters[0]->name, CapabilityState::kLost, reason);
}

bool OpenPerf(OpenSet* open) {
  PerfEvent events[kMaxCountersOfSet] = {};
  const PlannedSet& set = *open->set;
  bool needs_read = false;
  for (uint32_t i = 0; i < set.count; ++i) {
    events[i] = {set.counters[i], set.user_only[i]};
    needs_read = needs_read || set.counters[i]->needs_slots;
  }
  if (!OpenPerfGroup(events, set.count, 0, true, &open->perf)) {
    char reason[200];
    ExplainPerfError(*set.counters[0], errno, reason, sizeof reason);
    ReportLost(set, reason);
    return false;
  }
  if (!needs_read && MapPerfGroup(&open->perf)) open->source = CounterSource::kPerfRdpmc;
  return true;
}

// On a separate stack: PAPI needs more than a small thread has.
bool OpenPapi(OpenSet* open) {
  const Papi* papi = PlannedPapi();
  if (papi == nullptr) {
    ReportLost(*open->set, "PAPI does not survive a fork: the parent process has opened it");
    return false;
  }
  struct Making {
    OpenSet* open;
    int error;
  } making = {open, -2};  // PAPI_ENOMEM
  CallOnOwnStack(
      [](void* argument) {
        auto making = static_cast<Making*>(argument);
        const PlannedSet& set = *making->open->set;
        making->error = MakePapiSet(*PlannedPapi(), set.counters, set.count, &making->open->papi);
      },
      &making);
  if (making.error != kPapiOk) ReportLost(*open->set, papi->strerror(making.error));
  return making.error == kPapiOk;
}

bool OpenOne(OpenSet* open) {
  for (uint32_t i = 0; i < open->set->count; ++i) {
    bool is_clock = open->set->usage[i] == UsageField::kTaskClock;
    open->wants_clock = open->wants_clock || is_clock;
    open->wants_counts = open->wants_counts || !is_clock;
  }
  switch (open->source) {
    case CounterSource::kPerfRead:
      return OpenPerf(open);
    case CounterSource::kPapi:
      return OpenPapi(open);
    default:
      return true;
  }
}

bool ReadPapi(CounterThread* counters, const OpenSet& open, PerfReading* reading) {
  if (counters->is_in_library != 0) return false;
  counters->is_in_library = 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  long long values[kMaxCountersOfSet] = {};
  const Papi* papi = PlannedPapi();
  bool is_read = papi != nullptr && papi->read(open.papi, values) == kPapiOk;
  for (uint32_t i = 0; i < open.set->count; ++i) reading->values[i] = static_cast<uint64_t>(values[i]);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  counters->is_in_library = 0;
  return is_read;
}

bool ReadSet(CounterThread* counters, OpenSet* open, PerfReading* reading) {
  switch (open->source) {
    case CounterSource::kRusage: {
      Usage usage;
      if (!ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, open->wants_clock, open->wants_counts, &usage))
        return false;
      for (uint32_t i = 0; i < open->set->count; ++i) reading->values[i] = FieldOf(usage, open->set->usage[i]);
      return true;
    }
    case CounterSource::kPerfRead:
    case CounterSource::kPerfRdpmc:
      return ReadPerfGroup(open->perf, reading);
    case CounterSource::kReplay:
      g_counter_replay->read(reading);
      return true;
    case CounterSource::kPapi:
      return ReadPapi(counters, *open, reading);
    default:
      return false;
  }
}

void CloseSet(OpenSet* open) {
  if (open->perf.count != 0) ClosePerfGroup(&open->perf);
  const Papi* papi = open->source == CounterSource::kPapi ? PlannedPapi() : nullptr;
  if (papi == nullptr) return;
  StopPapiSet(*papi, open->papi);
  papi->unregister_thread();
}

// False if there is no room, or if a reading was made after this one began: a signal handler has recorded newer values,
// and values must ascend.
bool WriteReading(ThreadState* thread, const CounterRecord& head, uint32_t count, const uint64_t* values,
                  const uint64_t* readings, uint64_t number) {
  uint32_t words = static_cast<uint32_t>(sizeof(CounterRecord) / 8 + count);
  FrameMark mark;
  RecordHeader* space = ReserveDescription(thread, words, &mark);
  if (space == nullptr) {
    if (thread->active != 0) thread->session->dropped_readings.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (__atomic_load_n(readings, __ATOMIC_RELAXED) != number) {
    thread->ring.Release();
    return false;
  }
  auto record = reinterpret_cast<CounterRecord*>(space);
  *record = head;
  record->header = {static_cast<uint16_t>(words), RecordType::kCounters, 0, 0, static_cast<uint8_t>(count), 0};
  memcpy(record + 1, values, count * sizeof values[0]);
  CommitRecord(thread, space);
  return true;
}

void ReadAll(ThreadState* thread, CounterThread* counters) {
  for (uint32_t i = 0; i < counters->set_count; ++i) {
    OpenSet* open = &counters->sets[i];
    PerfReading reading = {};
    uint64_t number = __atomic_add_fetch(&counters->readings, 1, __ATOMIC_RELAXED);
    uint64_t ticks = ReadTicks(thread->clock);
    counters->last_ticks = ticks;  // even on failure, or each scope would try again
    // A child forked by a signal handler lacks the pages that rdpmc needs.
    if (thread->active == 0 || !ReadSet(counters, open, &reading)) continue;
    CounterRecord head = {{}, ticks, open->definition, open->source, 0, {}, reading.enabled_ns, reading.running_ns};
    WriteReading(thread, head, open->set->count, reading.values, &counters->readings, number);
  }
}

// The whole process, by getrusage: its threads, including those without readings.
void ReadProcess(ThreadState* thread, const CounterThread& counters) {
  for (uint32_t i = 0; i < counters.set_count; ++i) {
    const OpenSet& open = counters.sets[i];
    Usage usage;
    if (open.source != CounterSource::kRusage) continue;
    uint64_t ticks = ReadTicks(thread->clock);
    if (!ReadUsage(RUSAGE_SELF, CLOCK_PROCESS_CPUTIME_ID, open.wants_clock, open.wants_counts, &usage)) continue;
    uint64_t values[kMaxCountersOfSet];
    for (uint32_t j = 0; j < open.set->count; ++j) values[j] = FieldOf(usage, open.set->usage[j]);
    CounterRecord head = {{}, ticks, open.definition, open.source, 1, {}, 0, 0};
    WriteReading(thread, head, open.set->count, values, &counters.readings, counters.readings);
  }
}

CounterThread* OpenOf(ThreadState* thread) {
  CounterThread* counters = thread->counters;
  return counters != nullptr && counters->owner == thread->thread_id && thread->active != 0 ? counters : nullptr;
}

}  // namespace

void OpenThreadCounters(ThreadState* thread) {
  if (!IsWanted()) return;
  CounterPlan plan = GetCounterPlan();
  bool only_over_time = GetConfig().counters_at == CountersAt::kTime;
  CounterThread* counters = plan.set_count == 0 || only_over_time ? nullptr : MemoryOf(thread);
  if (counters == nullptr) return;
  memset(static_cast<void*>(counters), 0, sizeof *counters);
  for (uint32_t i = 0; i < plan.set_count; ++i) {
    OpenSet* open = &counters->sets[counters->set_count];
    *open = {};
    open->set = &plan.sets[i];
    open->source = plan.sets[i].source;
    open->definition = DefineCounterSet(plan.sets[i]);
    if (open->definition != 0 && OpenOne(open)) ++counters->set_count;
  }
  uint64_t second = TicksPerSecond(*thread->session);
  counters->scope_ticks = second / kScopesPerSecond;
  counters->user_range_ticks = second / kUserRangesPerSecond;
  counters->owner = thread->thread_id;
  ReadCounters(thread);
}

void CloseThreadCounters(ThreadState* thread) {
  CounterThread* counters = OpenOf(thread);
  if (counters == nullptr) return;
  Undisturbed undisturbed;
  ReadCounters(thread);
  counters->owner = 0;
  for (uint32_t i = 0; i < counters->set_count; ++i) CloseSet(&counters->sets[i]);
}

void ReadCounters(ThreadState* thread) {
  CounterThread* counters = OpenOf(thread);
  if (counters == nullptr) return;
  ErrnoKeeper keeper;
  ReadAll(thread, counters);
}

void ReadCountersAtScope(ThreadState* thread, ScopeKind kind) {
  CounterThread* counters = OpenOf(thread);
  if (counters == nullptr) return;
  uint64_t least = kind == ScopeKind::kUserRange ? counters->user_range_ticks : counters->scope_ticks;
  if (ReadTicks(thread->clock) - counters->last_ticks >= least) ReadCounters(thread);
}

void CloseProcessCounters() {
  ThreadState* thread = dlhook_thread;
  CounterThread* counters = thread == nullptr || thread->active == 0 ? nullptr : OpenOf(thread);
  if (counters == nullptr) return;
  Undisturbed undisturbed;
  ReadCounters(thread);
  ReadProcess(thread, *counters);
}

}  // namespace dlhook::inline counters
