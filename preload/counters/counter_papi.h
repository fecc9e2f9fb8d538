// Counters of PAPI: its presets and the events of its components, for what perf_event lacks. The library is opened when
// one is asked for. It keeps memory and descriptors of its own in the process, at numbers of its choice; a forked child,
// which would find its locks and its events as they were, does without. Thread: planning by one thread of the process;
// event sets belong to the thread that opened them. Slow paths run on a stack of their own, undisturbed.
#ifndef DLHOOK_PRELOAD_COUNTERS_COUNTER_PAPI_H_
#define DLHOOK_PRELOAD_COUNTERS_COUNTER_PAPI_H_

#include <cstdint>

#include "preload/counters/counter_names.h"

namespace dlhook {

// True where PAPI has this counter; else it was told why not.
bool PlanPapi(const CounterSpec* spec);

// A running event set for the calling thread; -1 with a clause in `reason` where there can't be one.
int OpenPapiSet(const CounterSpec* const* specs, uint32_t count, const char** reason);
bool ReadPapiSet(int set, uint32_t count, uint64_t* values);
void ClosePapiSet(int set);

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_COUNTERS_COUNTER_PAPI_H_
