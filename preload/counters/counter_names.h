// Counters by name: what a word of DLHOOK_COUNTERS asks of perf_event, getrusage or PAPI on a processor, and the sets
// that stand for several. Plain tables without allocation: used by the shim, the drain and the analyzer. Thread: any;
// nothing here is written but what the caller hands in. Reads files only through the caller's function.
#ifndef DLHOOK_PRELOAD_COUNTERS_COUNTER_NAMES_H_
#define DLHOOK_PRELOAD_COUNTERS_COUNTER_NAMES_H_

#include <cstddef>
#include <cstdint>

#include "preload/format/record.h"

namespace dlhook::inline counters {

enum class CounterUnit : uint8_t { kCount, kNanoseconds };

// The bit of a source in CounterSpec.sources.
constexpr uint8_t SourceBit(CounterSource source) { return static_cast<uint8_t>(1u << static_cast<int>(source)); }

constexpr uint32_t kNoPerfType = ~uint32_t{0};
constexpr size_t kMaxCounters = 48;  // that one DLHOOK_COUNTERS may ask for

// One counter as it is to be opened.
struct CounterSpec {
  char name[72];         // in the trace and in tables; without a comma: those of "cpu/a=1,b=2/" became ';'
  uint32_t perf_type;    // of perf_event_attr; kNoPerfType: perf_event has no such counter
  uint64_t perf_config;  // config, config1, config2 of perf_event_attr
  uint64_t perf_config1;
  uint64_t perf_config2;
  CounterUnit unit;
  uint8_t sources;      // SourceBit of those that can give it; kReplay always
  bool exclude_user;    // asked for with ":k"
  bool exclude_kernel;  // asked for with ":u"
  bool is_in_kernel;    // happens inside the kernel only (switches, migrations): with exclude_kernel perf_event counts
                        // none
  bool leads_group;     // `slots`: the processor wants it first in its group
  bool needs_slots;     // topdown-*: only in a group that `slots` leads, and by read(): rdpmc gives a ratio
  const char* set;      // "topdown": the set that brought it in; null: it was asked for by its own name
};

struct CounterRefusal {
  char name[72];     // the word
  char reason[200];  // a clause: "Top-Down level 1 is not known for AMD family 23 model 49 (Zen 2)"
};

struct CounterList {
  CounterSpec counters[kMaxCounters];
  size_t count;
  CounterRefusal refused[16];  // words that are understood but don't exist on this processor
  size_t refused_count;
  char complaint[256];  // the first word that is not understood, and what was expected; empty: none
};

// Which events a processor has depends on its core. Values are bits, so that a table's line can name several.
enum Microarchitecture : uint32_t {
  kUnknownCore = 0,
  kSandyBridge = 1u << 0,
  kIvyBridge = 1u << 1,
  kHaswell = 1u << 2,
  kBroadwell = 1u << 3,
  kSkylake = 1u << 4,         // client: Skylake to Comet Lake
  kSkylakeServer = 1u << 5,   // Skylake-SP, Cascade Lake, Cooper Lake
  kIceLake = 1u << 6,         // Ice Lake, Tiger Lake, Rocket Lake, client and server
  kSapphireRapids = 1u << 7,  // Sapphire, Emerald and Granite Rapids
  kAlderLake = 1u << 8,       // hybrid: Alder Lake to Arrow Lake
  kZen1 = 1u << 9,            // Zen, Zen+
  kZen2 = 1u << 10,
  kZen3 = 1u << 11,
  kZen4 = 1u << 12,
  kZen5 = 1u << 13,
};

struct Processor {
  char vendor[16];  // "GenuineIntel", "AuthenticAMD"; empty: not an x86 processor
  uint32_t family;
  uint32_t model;
  Microarchitecture core;
  const char* core_name;  // "Ice Lake", "unknown core"
  bool has_smt;           // two threads share a core
};

// By cpuid.
Processor ThisProcessor();
// As ThisProcessor would find it (tests, tables of other machines).
Processor ProcessorOf(const char* vendor, uint32_t family, uint32_t model, bool has_smt);

// Reads a file whole into `text` as a string, cut at `size`; false: not there. Only asked for files in
// /sys/bus/event_source/devices/, where the kernel says how "cpu/event=0x3c,umask=0/" is put into config. Null: such
// words are refused.
using ReadSmallFile = bool (*)(const char* path, char* text, size_t size);

// The counters that `words` ("software,instructions:u,PAPI_FP_OPS,cpu/event=0x3c/") asks for, each once, in their
// order.
void ParseCounters(const char* words, const Processor& processor, ReadSmallFile read_file, CounterList* list);

// What `dlhook counters` and help list. A name that stands there is understood by ParseCounters, on any processor.
struct KnownCounter {
  const char* name;
  const char* alias;    // perf's other name; null: none
  const char* meaning;  // a clause for people
  CounterUnit unit;
  uint32_t cores;  // Microarchitecture bits; 0: any
};
size_t KnownCounterCount();
KnownCounter KnownCounterAt(size_t index);
// By its name in the trace, with or without ":u" or ":k"; false: a raw event, one of PAPI's.
bool FindKnownCounter(const char* name, KnownCounter* counter);

struct CounterSet {
  const char* name;
  const char* meaning;
  const char* processors;  // that have it: a clause; null: any with counters
};
constexpr size_t kCounterSetCount = 5;
extern const CounterSet kCounterSets[kCounterSetCount];  // software, basic, cache, flops, topdown

}  // namespace dlhook::inline counters

#endif  // DLHOOK_PRELOAD_COUNTERS_COUNTER_NAMES_H_
