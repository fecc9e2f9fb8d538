// DLHOOK_TESTING_COUNTERS=FILE: recorded readings instead of counters, for hardware that this machine does not have.
//
//   # What a thread's next reading finds counted since its last one; after the last line the first follows again.
//   counters cycles instructions cache-misses
//   add 1000000 2000000 300
//   add 1200000 2100000 310 enabled 10000000 running 5000000
//   # Or the values of counters with this many bits, which wrap:
//   bits 32
//   raw 4294967000 17 3
//
// Thread: the file is read once, when the library is loaded; each thread goes through the lines by itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/counters/counter_names.h"
#include "preload/counters/perf_group.h"

namespace dlhook {

struct ReplayPosition {
  uint32_t next;  // line
  uint64_t raw[kMaxCountersOfSet];
  PerfReading now;
};

// False with a sentence in `complaint`.
bool ParseReplay(const char* text, size_t size, char* complaint, size_t complaint_size);

const CounterList& ReplayedCounters();
void ReadReplay(ReplayPosition* position, PerfReading* reading);

}  // namespace dlhook
