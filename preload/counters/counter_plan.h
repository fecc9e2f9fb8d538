// The plan for DLHOOK_COUNTERS on this machine: which counters threads read, from which source, and which together.
// Made once per process image (a forked child inherits its parent's).
// Thread: any, undisturbed, on the slow path of attaching; sets are appended to the plan and never change.
#pragma once

#include "preload/counters/counter_names.h"
#include "preload/counters/papi.h"
#include "preload/counters/perf_group.h"
#include "preload/counters/rusage_counters.h"
#include "preload/format/record.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline counters {

// Counters that are read together in one record.
struct PlannedSet {
  CounterSource source;  // kPerfRead even if a thread may use rdpmc
  uint32_t count;
  const CounterSpec* counters[kMaxCountersOfSet];
  bool user_only[kMaxCountersOfSet];
  UsageField usage[kMaxCountersOfSet];
};
constexpr uint32_t kMaxCounterSets = 8;

struct CounterPlan {
  uint32_t set_count;
  const PlannedSet* sets;
};

// For a thread that begins to record. Reports as capabilities what can't be counted and why. Omits PAPI's counters if
// another thread has not finished opening PAPI: threads must not wait for the loader's lock, which it may need.
CounterPlan GetCounterPlan();

// Readings that replace this machine's. Null here: the tests' build of the shim sets it (tests/testing_shim/) before
// the first thread records.
struct CounterReplay {
  const CounterList* counters;
  void (*read)(PerfReading* reading);  // of the calling thread
};
extern const CounterReplay* g_counter_replay;

// PAPI, if the plan has counters of it and this process has opened it; null in a forked child whose parent has.
const Papi* PlannedPapi();

// For one counter ("counter:instructions").
void ReportCounter(const char* name, CapabilityState state, const char* reason);

// The names of a set's counters, separated by commas, as a definition in this process's session; 0: no room.
uint32_t DefineCounterSet(const PlannedSet& set);

}  // namespace dlhook::inline counters
