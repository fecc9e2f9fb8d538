// Counters by name: what a word of DLHOOK_COUNTERS requests from perf_event, getrusage or PAPI on a processor, and sets
// of counters. Plain tables without allocation, used by the shim, the drain and the analyzer.
// Thread: any; writes only to its arguments. Reads files only through the caller's function.
#pragma once

#include <span>

#include "preload/format/record.h"

namespace dlhook::inline counters {

enum class CounterUnit : uint8_t { kCount, kNanoseconds };

// The bit of a source in CounterSpec.sources.
constexpr uint8_t SourceBit(CounterSource source) { return static_cast<uint8_t>(1u << static_cast<int>(source)); }

constexpr uint32_t kNoPerfType = ~uint32_t{0};
constexpr size_t kMaxCounters = 48;  // in one DLHOOK_COUNTERS

// A counter to open.
struct CounterSpec {
  char name[72];         // in the trace and in tables; without commas: those of "cpu/a=1,b=2/" become ';'
  uint32_t perf_type;    // of perf_event_attr; kNoPerfType: perf_event has no such counter
  uint64_t perf_config;  // config, config1, config2 of perf_event_attr
  uint64_t perf_config1;
  uint64_t perf_config2;
  CounterUnit unit;
  uint8_t sources;      // SourceBit of its possible sources; always kReplay
  bool exclude_user;    // requested with ":k"
  bool exclude_kernel;  // requested with ":u"
  bool is_in_kernel;    // occurs only inside the kernel (switches, migrations): with exclude_kernel perf_event counts
                        // none
  bool leads_group;     // `slots`: the processor requires it first in its group
  bool needs_slots;     // topdown-*: only in a group led by `slots`, and by read(): rdpmc returns a ratio
  const char* set;      // "topdown": the set that contains it; null: requested by its own name
};

struct CounterRefusal {
  char name[72];     // the word
  char reason[200];  // a clause: "Top-Down level 1 is not known for AMD family 23 model 49 (Zen 2)"
};

struct CounterList {
  CounterSpec counters[kMaxCounters];
  size_t count;
  CounterRefusal refused[16];  // words that are valid but don't exist on this processor
  size_t refused_count;
  char complaint[256];  // the first invalid word, and what was expected; empty: none
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
  bool has_smt;           // two threads per core
};

// By cpuid.
Processor ThisProcessor();
// The result of ThisProcessor on another machine (for tests and tables).
Processor ProcessorOf(const char* vendor, uint32_t family, uint32_t model, bool has_smt);

// Reads a file into `text` as a string, truncated to `size`; false: not there. Only called for files in
// /sys/bus/event_source/devices/, where the kernel describes how "cpu/event=0x3c,umask=0/" is encoded in config. Null:
// such words are refused.
using ReadSmallFile = bool (*)(const char* path, char* text, size_t size);

// The counters in `words` ("software,instructions:u,PAPI_FP_OPS,cpu/event=0x3c/"), each once, in order.
void ParseCounters(const char* words, const Processor& processor, ReadSmallFile read_file, CounterList* list);

struct CounterSet {
  const char* name;
  const char* meaning;
  const char* processors;  // that support it: a clause; null: any with counters
};
constexpr size_t kCounterSetCount = 5;
extern const CounterSet kCounterSets[kCounterSetCount];  // software, basic, cache, flops, topdown

enum CounterFlag : uint16_t {
  kInNs = 1,
  kInKernel = 2,
  kLeads = 4,
  kNeedsSlots = 8,
  kWithSmt = 16,     // in its sets only if two threads share a core
  kWithoutSmt = 32,  // … only if they do not
};
constexpr uint32_t kNotZen = ~uint32_t{0};  // for set_cores

// A known counter. ParseCounters accepts its name on any processor.
struct CounterLine {
  const char* name;
  const char* alias;    // perf's other name; null: none
  const char* meaning;  // a clause for the user
  uint32_t type;
  uint64_t config;
  uint8_t sources;
  uint8_t sets;        // bit i: of kCounterSets[i]
  uint32_t set_cores;  // Microarchitecture bits on which its sets contain it; 0: on all that have it
  uint32_t cores;      // Microarchitecture bits that have it; 0: any
  uint16_t flags;
};

std::span<const CounterLine> CounterLines();
// By its name in the trace, with or without ":u" or ":k"; null: a raw event, or one of PAPI's.
const CounterLine* FindCounterLine(const char* name);

inline CounterUnit UnitOf(const CounterLine& line) {
  return (line.flags & kInNs) != 0 ? CounterUnit::kNanoseconds : CounterUnit::kCount;
}

// Whether the processor has the counter; whether it is in kCounterSets[set] there.
bool IsOn(const CounterLine& line, const Processor& processor);
bool IsInSet(const CounterLine& line, size_t set, const Processor& processor);

}  // namespace dlhook::inline counters
