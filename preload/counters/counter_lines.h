// A line of the table of counters, shared by counter_names.cc, which defines it, and counter_words.cc, which looks up
// words in it.
// Thread: any; constant.
#pragma once

#include "preload/counters/counter_names.h"

namespace dlhook::inline counters {

enum CounterFlag : uint16_t {
  kInNs = 1,
  kInKernel = 2,
  kLeads = 4,
  kNeedsSlots = 8,
  kWithSmt = 16,     // in its sets only if two threads share a core
  kWithoutSmt = 32,  // … only if they do not
};
constexpr uint32_t kNotZen = ~uint32_t{0};  // for set_cores

struct CounterLine {
  const char* name;
  const char* alias;
  const char* meaning;
  uint32_t type;
  uint64_t config;
  uint8_t sources;
  uint8_t sets;        // bit i: of kCounterSets[i]
  uint32_t set_cores;  // Microarchitecture bits on which its sets contain it; 0: on all that have it
  uint32_t cores;      // Microarchitecture bits that have it; 0: any
  uint16_t flags;
};

size_t CounterLineCount();
const CounterLine& CounterLineAt(size_t index);

inline CounterUnit UnitOf(const CounterLine& line) {
  return (line.flags & kInNs) != 0 ? CounterUnit::kNanoseconds : CounterUnit::kCount;
}

// Whether the processor has the counter; whether it is in kCounterSets[set] there.
bool IsOn(const CounterLine& line, const Processor& processor);
bool IsInSet(const CounterLine& line, size_t set, const Processor& processor);

}  // namespace dlhook::inline counters
