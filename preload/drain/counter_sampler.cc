// Samples of counters.
#include "preload/drain/counter_sampler.h"

#include <stdio.h>
#include <unistd.h>

#include <initializer_list>

#include "preload/base/own_pages.h"
#include "preload/counters/counter_names.h"
#include "preload/format/identity.h"

namespace dlhook::inline drain {
namespace {

constexpr uint64_t kSamplesPerListing = 5;
constexpr uint64_t kSamplesPerSeldom = 10;
constexpr uint64_t kHandOverMs = 250, kHandOverRarelyMs = 15'000;
constexpr uint32_t kIdleSamples = 8;  // after that a thread is read less often
constexpr uint32_t kIdleLookSamples = 4;
constexpr uint64_t kPartOfProcessor = 150;  // samples take at most 1/150 of a processor
constexpr uint64_t kLongestIntervalSeconds = 60;
constexpr uint64_t kStatesMs = 50, kStatesRarelyMs = 500;  // if no counters are wanted
constexpr uint64_t kStatesOftenForMs = 60'000;             // on a busy machine imports alone take ten seconds
constexpr uint64_t kUnreadMs = 60'000,
                   kUnreadPart = 1000;  // then a thread that ran for less of this time gets no reading

// The clock of a thread of the own process (see clock_getcpuclockid; glibc has no function for a tid), of a process.
clockid_t ClockOfThread(uint32_t tid) { return static_cast<clockid_t>((~tid << 3) | 6u); }
clockid_t ClockOfProcess(uint32_t pid) { return static_cast<clockid_t>((~pid << 3) | 2u); }

bool ReadClock(clockid_t clock, uint64_t* ns) {
  timespec now;
  if (clock_gettime(clock, &now) != 0) return false;
  *ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return true;
}

// Read less often, because the files are too expensive for every sample.
bool IsSeldom(UsageField field) { return field >= UsageField::kVoluntarySwitches; }

}  // namespace

void CounterSampler::AddCounter(const char* name, size_t bytes) {
  UsageField field = UsageFieldOf(name);
  if (field == UsageField::kNone) return;
  wants_faults_ = wants_faults_ || (field != UsageField::kTaskClock && !IsSeldom(field));
  wants_switches_ = wants_switches_ || (IsSeldom(field) && field != UsageField::kMigrations);
  wants_migrations_ = wants_migrations_ || field == UsageField::kMigrations;
  for (Series* series : {IsSeldom(field) ? &seldom_ : &often_, &process_}) {
    // From outside, a process's switches are not available, and its migrations never.
    bool is_told = !IsSeldom(field) || (is_own_process_ && field != UsageField::kMigrations);
    if (series == &process_ && !is_told) continue;
    size_t used = strlen(series->names);
    if (series->count == kMaxCountersOfSet || used + bytes + 2 > sizeof series->names) continue;
    snprintf(series->names + used, sizeof series->names - used, "%s%s", used == 0 ? "" : ",", name);
    series->fields[series->count++] = field;
  }
}

void CounterSampler::Open(SessionHeader* session, bool is_own_process, Drain* drain, BlockedObserver observer) {
  const bool has_counters = session->counters_interval_ms != 0;
  if (is_own_process ? !has_counters : session->pid_namespace != PidNamespace()) return;
  session_ = session;
  observer_ = observer;
  is_own_process_ = is_own_process;
  char words[sizeof session->counters];
  snprintf(words, sizeof words, "%.*s", static_cast<int>(sizeof words - 1), session->counters);
  CounterList list;
  ParseCounters(has_counters ? words : "", ThisProcessor(), nullptr, &list);
  const CounterSpec* perf[kMaxCounters];
  size_t perf_count = 0;
  for (size_t i = 0; i < list.count; ++i) {
    const CounterSpec& spec = list.counters[i];
    AddCounter(spec.name, strlen(spec.name));
    if (UsageFieldOf(spec.name) == UsageField::kNone && spec.perf_type != kNoPerfType) perf[perf_count++] = &spec;
  }
  if (perf_.Open(perf, perf_count, drain))
    perf_threads_ = static_cast<PerfSampler::Thread*>(MapOwnPages(sizeof(PerfSampler::Thread) * kMaxThreads));
  wants_perf_ = perf_threads_ != nullptr;
  void* memory = MapOwnPages(sizeof(Thread) * kMaxThreads);
  if (memory == nullptr || (is_own_process && process_.count == 0 && !wants_perf_)) {
    if (memory != nullptr) munmap(memory, sizeof(Thread) * kMaxThreads);
    return Close();
  }
  threads_ = static_cast<Thread*>(memory);
  interval_ticks_ = TicksOf(has_counters ? session->counters_interval_ms : kStatesMs);
  rarely_from_ticks_ = has_counters ? UINT64_MAX : NowTicks(*session_) + TicksOf(kStatesOftenForMs);
  next_hand_over_ticks_ = NowTicks(*session_) + TicksOf(kHandOverMs);
  BeginThread(0, drain);
}

void CounterSampler::Close() {
  for (uint32_t i = 0; i < thread_count_; ++i) {
    CloseProcFiles(&threads_[i].files);
    if (wants_perf_) perf_.End(PerfOf(&threads_[i]));
  }
  if (threads_ != nullptr) munmap(threads_, sizeof(Thread) * kMaxThreads);
  if (wants_perf_) munmap(perf_threads_, sizeof(PerfSampler::Thread) * kMaxThreads);
  if (directory_ >= 0) close(directory_);
  threads_ = nullptr;
  perf_threads_ = nullptr;
  wants_perf_ = false;
  directory_ = -1;
  thread_count_ = 0;
  session_ = nullptr;
}

uint64_t CounterSampler::NanosecondsToNext() const {
  if (session_ == nullptr) return UINT64_MAX;
  uint64_t now = NowTicks(*session_);
  if (now >= next_ticks_) return 0;
  return static_cast<uint64_t>(static_cast<double>(next_ticks_ - now) * 1e9 /
                               static_cast<double>(TicksPerSecond(*session_)));
}

void CounterSampler::Step(Drain* drain) {
  if (session_ == nullptr || NowTicks(*session_) < next_ticks_) return;
  // Wait until the first thread has a number.
  bool has_begun = session_->next_thread_id.load(std::memory_order_relaxed) != 0;
  if (!has_begun || IsStopped(*session_)) {
    next_ticks_ = NowTicks(*session_) + interval_ticks_;
    return;
  }
  uint64_t began_ns = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID);
  Sample(drain, false);
  uint64_t cost_ns = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID) - began_ns;
  uint64_t second = TicksPerSecond(*session_);
  uint64_t least = cost_ns * kPartOfProcessor * (second / 1000000u) / 1000u;
  if (NowTicks(*session_) >= rarely_from_ticks_) {
    interval_ticks_ = TicksOf(kStatesRarelyMs);
    rarely_from_ticks_ = UINT64_MAX;
    is_rarely_ = true;
  }
  // Beyond its limit a trace grows ever more slowly.
  const bool may_grow =
      drain->IsFull() || (drain->IsBeyondLimit() && interval_ticks_ < kLongestIntervalSeconds * second);
  if (may_grow) interval_ticks_ *= 2;
  next_ticks_ = NowTicks(*session_) + (least > interval_ticks_ ? least : interval_ticks_);
}

void CounterSampler::Finish(Drain* drain) {
  if (session_ == nullptr) return;
  Sample(drain, true);
  for (uint32_t i = 1; i < thread_count_; ++i) HoldIdle(drain, &threads_[i]);
  HandOverAll(drain);
}

void CounterSampler::Sample(Drain* drain, bool all) {
  if (all || samples_ % kSamplesPerListing == 0) ListThreads(drain);
  bool is_seldom = seldom_.count != 0 && (all || samples_ % kSamplesPerSeldom == 0);
  ++samples_;
  LookAtProcess(drain, NowTicks(*session_), all);
  for (uint32_t i = 1; i < thread_count_;) {
    Thread* thread = &threads_[i];
    uint64_t ticks = NowTicks(*session_);
    if (thread->is_alive && (all || ticks >= thread->next_look_ticks)) Look(drain, thread, ticks);
    if (is_seldom && thread->ran_since_seldom) ReadSeldom(drain, thread, ticks);
    if (thread->is_alive) {
      ++i;
    } else {
      EndThread(drain, thread);
    }
  }
  uint64_t now = NowTicks(*session_);
  if (now < next_hand_over_ticks_) return;
  next_hand_over_ticks_ = now + TicksOf(is_rarely_ ? kHandOverRarelyMs : kHandOverMs);
  HandOverAll(drain);
}

// ---- What they have done ----

bool CounterSampler::ReadTaskClock(Thread* thread, uint64_t* task_clock_ns) const {
  if (is_own_process_) return ReadClock(ClockOfThread(thread->tid), task_clock_ns);
  char text[128];
  return ReadProcFile(&thread->files, ProcFile::kSchedstat, text, sizeof text) &&
         ParseSchedstat(text, task_clock_ns, &thread->states.queued_ns);
}

void CounterSampler::FindState(Thread* thread, uint64_t ticks) const {
  if (is_own_process_) return;
  LookAtThread(&thread->files, {thread->tid, thread->thread_id, thread->look_ticks, ticks, thread->last.task_clock_ns},
               TicksPerSecond(*session_), observer_, &thread->states);
  thread->look_ticks = ticks;
}

bool CounterSampler::ReadFaults(Thread* thread, ProcStat* stat) const {
  char text[1024];
  if (!ReadProcFile(&thread->files, ProcFile::kStat, text, sizeof text) || !ParseStat(text, stat)) return false;
  thread->last.minor_faults = stat->minor_faults;
  thread->last.major_faults = stat->major_faults;
  return true;
}

void CounterSampler::ReadSeldom(Drain* drain, Thread* thread, uint64_t ticks) {
  char text[8192];
  Usage* last = &thread->last;
  if (wants_switches_) {
    bool is_there = ReadProcFile(&thread->files, ProcFile::kStatus, text, sizeof text);
    if (!is_there || !ParseSwitches(text, &last->voluntary_switches, &last->involuntary_switches)) return;
  }
  // A kernel without this file was reported when the process began to count.
  if (wants_migrations_ && ReadProcFile(&thread->files, ProcFile::kSched, text, sizeof text))
    ParseMigrations(text, &last->migrations);
  thread->ran_since_seldom = false;
  if (thread->held_seldom_count == kHeldSeldom) HandOver(drain, thread);
  thread->held_seldom[thread->held_seldom_count++] = {ticks, thread->last, {}};
}

void CounterSampler::Look(Drain* drain, Thread* thread, uint64_t ticks) {
  uint64_t task_clock_ns;
  bool is_there = ReadTaskClock(thread, &task_clock_ns);
  if (!is_there && (errno == EMFILE || errno == ENFILE)) return;  // no descriptor available: nothing is known
  // If the clock went backwards, a later thread has this number.
  if (!is_there || task_clock_ns < thread->last.task_clock_ns) {
    thread->is_alive = false;
    return;
  }
  if (thread->may_be_renamed) TellNameAgain(drain, thread);
  if (thread->has_begun && HardlyRan(*thread, ticks, task_clock_ns)) {
    thread->last.task_clock_ns = task_clock_ns;
    thread->idle_ticks = ticks;
    FindState(thread, ticks);
    if (++thread->idle_samples >= kIdleSamples) thread->next_look_ticks = ticks + kIdleLookSamples * interval_ticks_;
    return;
  }
  // It began to run after it was last seen idle, not after its last reading.
  HoldIdle(drain, thread);
  thread->idle_samples = 0;
  thread->ran_since_seldom = true;
  bool is_first = !thread->has_begun;
  ProcStat stat = {};
  Usage before = thread->last;
  if ((wants_faults_ || is_first) && !ReadFaults(thread, &stat)) return;
  if (!is_first && stat.start_jiffies != 0 && stat.start_jiffies != thread->start_jiffies) {
    thread->last = before;  // the new values belong to a later thread
    thread->is_alive = false;
    return;
  }
  thread->last.task_clock_ns = task_clock_ns;
  FindState(thread, ticks);
  if (is_first) {
    Usage usage = thread->last;
    ThreadStates states = thread->states;
    thread->last = {};
    thread->states = {};
    thread->has_begun = true;
    thread->start_jiffies = stat.start_jiffies;
    thread->start_ticks = TicksOfStart(stat.start_jiffies);
    thread->may_be_renamed = thread->thread_id == 0 && !is_own_process_;
    if (thread->may_be_renamed) drain->AddThread(0, thread->tid, stat.name);
    Hold(drain, thread, thread->start_ticks);
    if (seldom_.count != 0) thread->held_seldom[thread->held_seldom_count++] = {thread->start_ticks, {}, {}};
    thread->last = usage;
    thread->states = states;
  }
  Hold(drain, thread, ticks);
  if (wants_perf_) perf_.Sample(PerfOf(thread), ticks, thread->thread_id, thread->tid, drain);
}

// Not since the last look or, if looks are rare, for less than 0.1 % of the time since its last reading: a thread that wakes up
// each second would take megabytes a day.
bool CounterSampler::HardlyRan(const Thread& thread, uint64_t ticks, uint64_t task_clock_ns) const {
  if (task_clock_ns == thread.last.task_clock_ns) return true;
  const uint64_t unread_ticks = ticks - thread.read_ticks;
  if (!is_rarely_ || unread_ticks >= TicksOf(kUnreadMs)) return false;
  return (task_clock_ns - thread.read_task_clock_ns) * kUnreadPart < unread_ticks * 1000 / TicksOf(1000) * 1'000'000;
}

void CounterSampler::LookAtProcess(Drain* drain, uint64_t ticks, bool is_last) {
  Thread* process = &threads_[0];
  Usage usage = {};
  if (is_own_process_) {
    if (!ReadUsage(RUSAGE_SELF, CLOCK_PROCESS_CPUTIME_ID, true, true, &usage)) return;
  } else {
    char text[1024];
    ProcStat stat;
    if (!ReadClock(ClockOfProcess(session_->pid), &usage.task_clock_ns)) return;
    if (!ReadProcFile(&process->files, ProcFile::kStat, text, sizeof text) || !ParseStat(text, &stat)) return;
    usage.minor_faults = stat.minor_faults;
    usage.major_faults = stat.major_faults;
  }
  if (!process->has_begun) {
    process->has_begun = true;
    Hold(drain, process, TicksOfStart(session_->start_time_jiffies));
  }
  if (!is_last && is_rarely_ && HardlyRan(*process, ticks, usage.task_clock_ns)) return;
  process->last = usage;
  Hold(drain, process, ticks);
}

// Converts to ticks of the trace. A start is in hundredths of a second since boot.
uint64_t CounterSampler::TicksOfStart(uint64_t start_jiffies) const {
  uint64_t now_ns = ClockNanoseconds(CLOCK_BOOTTIME);
  uint64_t start_ns = start_jiffies * (1000000000u / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
  uint64_t age_ns = now_ns > start_ns ? now_ns - start_ns : 0;
  auto age_ticks =
      static_cast<uint64_t>(static_cast<double>(age_ns) * static_cast<double>(TicksPerSecond(*session_)) / 1e9);
  uint64_t now = NowTicks(*session_);
  return now > age_ticks ? now - age_ticks : 0;
}

// ---- Output to the drain ----

void CounterSampler::Hold(Drain* drain, Thread* thread, uint64_t ticks) {
  if (thread->held_count == kHeldReadings) HandOver(drain, thread);
  thread->held[thread->held_count++] = {ticks, thread->last, thread->states};
  thread->read_ticks = ticks;
  thread->read_task_clock_ns = thread->last.task_clock_ns;
}

void CounterSampler::HoldIdle(Drain* drain, Thread* thread) {
  if (thread->idle_ticks != 0) Hold(drain, thread, thread->idle_ticks);
  thread->idle_ticks = 0;
}

void CounterSampler::Give(Drain* drain, const Thread& thread, const Series& series, const Held* held, uint32_t count) {
  if (series.count == 0 || count == 0) return;
  CounterReading readings[kHeldReadings];
  for (uint32_t i = 0; i < count; ++i) {
    readings[i] = {held[i].ticks, 0, 0, {}};
    for (uint32_t j = 0; j < series.count; ++j) readings[i].values[j] = FieldOf(held[i].usage, series.fields[j]);
  }
  bool is_usage = thread.tid == 0 && is_own_process_;
  drain->AddSamples(thread.thread_id, thread.tid, ReadingKind::kSample,
                    is_usage ? CounterSource::kRusage : CounterSource::kProc, series.names, readings, count);
}

void CounterSampler::GiveStates(Drain* drain, const Thread& thread) {
  if (is_own_process_) return;
  CounterReading readings[kHeldReadings];
  for (uint32_t i = 0; i < thread.held_count; ++i) {
    const Held& held = thread.held[i];
    readings[i] = StatesReading(held.ticks, held.usage.task_clock_ns, held.states);
  }
  drain->AddSamples(thread.thread_id, thread.tid, ReadingKind::kStates, CounterSource::kProc, kThreadStateList,
                    readings, thread.held_count);
}

void CounterSampler::HandOver(Drain* drain, Thread* thread) {
  GiveStates(drain, *thread);
  Give(drain, *thread, thread->tid == 0 ? process_ : often_, thread->held, thread->held_count);
  Give(drain, *thread, seldom_, thread->held_seldom, thread->held_seldom_count);
  if (wants_perf_) perf_.HandOver(PerfOf(thread), thread->thread_id, thread->tid, drain);
  thread->held_count = thread->held_seldom_count = 0;
}

void CounterSampler::HandOverAll(Drain* drain) {
  for (uint32_t i = 0; i < thread_count_; ++i) HandOver(drain, &threads_[i]);
}

}  // namespace dlhook::inline drain
