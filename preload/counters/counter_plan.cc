// The plan: words -> counters -> the cheapest source that has each -> sets.
#include "preload/counters/counter_plan.h"

#include <fcntl.h>
#include <stdio.h>

#include "preload/base/spin_lock.h"
#include "preload/format/identity.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"

namespace dlhook::inline counters {
namespace {

SpinLock g_lock;
std::atomic<bool> g_is_made{false};
CounterList g_list;
PerfGroups g_groups;
PlannedSet g_sets[kMaxCounterSets];
std::atomic<uint32_t> g_set_count{0};
const CounterSpec* g_of_papi[kMaxCounters];
uint32_t g_of_papi_count;
constinit Papi g_papi;
uint32_t g_papi_process;  // which has opened it

// The process id of the one that has begun to plan PAPI's counters, and whether it is done.
std::atomic<uint32_t> g_papi_planner{0};
std::atomic<bool> g_papi_is_planned{false};
constexpr int kLongestPapiWaitMs = 200;

// Definition numbers of the sets' names in this process's session.
SpinLock g_definitions_lock;
uint32_t g_definitions[kMaxCounterSets];
uint32_t g_definitions_of;  // a process id

bool ReadWhole(const char* path, char* text, size_t size) { return ReadFileAt(AT_FDCWD, path, text, size) > 0; }

bool Has(const CounterSpec& spec, CounterSource source) { return (spec.sources & SourceBit(source)) != 0; }

// A new set for this source, or the last one if it has room.
PlannedSet* SetFor(CounterSource source, bool begins, uint32_t* count) {
  for (uint32_t i = *count; i-- > 0 && !begins;) {
    PlannedSet& set = g_sets[i];
    if (set.source == source && set.count < kMaxCountersOfSet) return &set;
  }
  if (*count == kMaxCounterSets) return nullptr;
  PlannedSet* set = &g_sets[(*count)++];
  *set = {};
  set->source = source;
  return set;
}

// `set_count` includes sets that are not read yet.
void AddTo(CounterSource source, bool begins, const CounterSpec& spec, bool user_only, const char* reason,
           uint32_t* set_count) {
  PlannedSet* set = SetFor(source, begins, set_count);
  if (set == nullptr)
    return ReportCounter(spec.name, CapabilityState::kRefused, "more sets of counters than dlhook reads at once");
  set->counters[set->count] = &spec;
  set->user_only[set->count] = user_only;
  set->usage[set->count] = source == CounterSource::kRusage ? UsageFieldOf(spec.name) : UsageField::kNone;
  ++set->count;
  ReportCounter(spec.name, CapabilityState::kOn, reason);
}

void Refuse(void*, const CounterSpec& spec, const char* reason) {
  ReportCounter(spec.name, CapabilityState::kRefused, reason);
}

void PlanPerf(const CounterSpec* const* specs, size_t count, uint32_t* set_count) {
  DividePerfGroups(specs, count, &Refuse, nullptr, &g_groups);
  const PerfEvent* event = g_groups.events;
  for (uint32_t group = 0; group < g_groups.count; ++group) {
    for (uint32_t i = 0; i < g_groups.sizes[group]; ++i, ++event) {
      AddTo(CounterSource::kPerfRead, i == 0, *event->spec, event->user_only,
            event->user_only ? "perf_event, in user mode only (perf_event_paranoid)" : "perf_event", set_count);
    }
  }
}

bool IsReplayed(const CounterSpec& spec) {
  const CounterList* replayed = g_counter_replay == nullptr ? nullptr : g_counter_replay->counters;
  for (size_t i = 0; replayed != nullptr && i < replayed->count; ++i) {
    if (strcmp(replayed->counters[i].name, spec.name) == 0) return true;
  }
  return false;
}

// Uses the cheapest source that has it. PAPI is used only for what the others lack: it brings a library and descriptors
// into the process.
void PlanSources(uint32_t* set_count) {
  const CounterSpec* perf[kMaxCounters];
  size_t perf_count = 0;
  for (size_t i = 0; i < g_list.count; ++i) {
    const CounterSpec& spec = g_list.counters[i];
    if (IsReplayed(spec)) {
      continue;
    } else if (Has(spec, CounterSource::kRusage)) {
      AddTo(CounterSource::kRusage, false, spec, false, "getrusage", set_count);
    } else if (Has(spec, CounterSource::kProc)) {
      ReportCounter(spec.name, CapabilityState::kOn, "over time only: costs more than what it tells of a scope");
    } else if (spec.perf_type != kNoPerfType) {
      perf[perf_count++] = &spec;
    } else {
      g_of_papi[g_of_papi_count++] = &spec;
    }
  }
  PlanPerf(perf, perf_count, set_count);
}

void PlanReplay(uint32_t* set_count) {
  if (g_counter_replay == nullptr) return;
  const CounterList* replayed = g_counter_replay->counters;
  for (size_t i = 0; i < replayed->count; ++i) {
    AddTo(CounterSource::kReplay, i == 0, replayed->counters[i], false, "recorded readings", set_count);
  }
}

void MakePlan(void*) {
  uint32_t set_count = 0;
  g_of_papi_count = 0;
  ParseCounters(GetConfig().counters, ThisProcessor(), &ReadWhole, &g_list);
  if (g_list.complaint[0] != '\0') ReportCapability("counters", "", CapabilityState::kRefused, g_list.complaint);
  for (size_t i = 0; i < g_list.refused_count; ++i) {
    ReportCounter(g_list.refused[i].name, CapabilityState::kRefused, g_list.refused[i].reason);
  }
  PlanReplay(&set_count);
  PlanSources(&set_count);
  g_set_count.store(set_count, std::memory_order_release);
}

// Runs constructors and takes the loader's lock. Null, or why it can't be used: a clause.
const char* OpenPapi() {
  g_papi_process = ProcessId();
  int version = 0;
  for (const char* soname : kPapiSonames) {
    void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return StartPapi(library, &RealDlsym, &g_papi, &version);
  }
  return "it is not installed";
}

void PlanOfPapi(void*) {
  const char* trouble = OpenPapi();
  uint32_t set_count = g_set_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < g_of_papi_count; ++i) {
    const CounterSpec& spec = *g_of_papi[i];
    char reason[200];
    int set = -1;
    int error = trouble == nullptr ? MakePapiSet(g_papi, &g_of_papi[i], 1, &set) : kPapiOk;
    if (trouble != nullptr) {
      snprintf(reason, sizeof reason, "needs PAPI (libpapi.so.7 or .so.6): %s", trouble);
      ReportCounter(spec.name, CapabilityState::kAbsent, reason);
    } else if (error != kPapiOk) {
      snprintf(reason, sizeof reason, "PAPI can't count it here: %s", g_papi.strerror(error));
      ReportCounter(spec.name, CapabilityState::kRefused, reason);
    } else {
      StopPapiSet(g_papi, set);
      AddTo(CounterSource::kPapi, false, spec, false, "PAPI", &set_count);
    }
  }
  g_set_count.store(set_count, std::memory_order_release);
}

// One thread does this, without a lock; others wait, but not forever: a thread in a library's constructor holds the
// loader's lock, for which the first one may wait.
void PlanPapiOnce() {
  uint32_t planner = 0;
  if (g_papi_is_planned.load(std::memory_order_acquire)) return;
  if (g_papi_planner.compare_exchange_strong(planner, ProcessId())) {
    CallOnOwnStack(&PlanOfPapi, nullptr);
    g_papi_is_planned.store(true, std::memory_order_release);
    return;
  }
  // Planning that the parent of a forked child had begun does not end here.
  for (int ms = 0; planner == ProcessId() && ms < kLongestPapiWaitMs; ++ms) {
    SleepFor(1'000'000);
    if (g_papi_is_planned.load(std::memory_order_acquire)) return;
  }
  ReportCounter(g_of_papi[0]->name, CapabilityState::kLost,
                "not of a thread that began to record while another one was opening PAPI");
}

uint32_t DefineNames(const PlannedSet& set) {
  char names[kMaxCountersOfSet * sizeof(CounterSpec::name)];
  size_t size = 0;
  for (uint32_t i = 0; i < set.count; ++i) {
    int written = snprintf(names + size, sizeof names - size, "%s%s", i == 0 ? "" : ",", set.counters[i]->name);
    size += static_cast<size_t>(written);
  }
  return Define(DefinitionKind::kText, names, size);
}

}  // namespace

const CounterReplay* g_counter_replay = nullptr;

void ReportCounter(const char* name, CapabilityState state, const char* reason) {
  char capability[sizeof(CounterSpec::name) + 16];
  snprintf(capability, sizeof capability, "counter:%s", name);
  ReportCapability(capability, "", state, reason);
}

CounterPlan GetCounterPlan() {
  if (!g_is_made.load(std::memory_order_acquire)) {
    SpinLockHolder holder(&g_lock);
    if (!g_is_made.load(std::memory_order_relaxed)) CallOnOwnStack(&MakePlan, nullptr);
    g_is_made.store(true, std::memory_order_release);
  }
  if (g_of_papi_count != 0) PlanPapiOnce();
  return {g_set_count.load(std::memory_order_acquire), g_sets};
}

const Papi* PlannedPapi() { return g_papi_process == ProcessId() ? &g_papi : nullptr; }

uint32_t DefineCounterSet(const PlannedSet& set) {
  SpinLockHolder holder(&g_definitions_lock);
  if (g_definitions_of != ProcessId()) {
    memset(g_definitions, 0, sizeof g_definitions);
    g_definitions_of = ProcessId();
  }
  uint32_t* number = &g_definitions[&set - g_sets];
  if (*number == 0) *number = DefineNames(set);
  return *number;
}

}  // namespace dlhook::inline counters
