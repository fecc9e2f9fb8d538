// The DLHOOK_* variables (preload/format/variables.inc), read once. Enums are in the order of a variable's values.
// Thread: the first to ask (the constructor, or a hook that runs before it).
#pragma once

#include <cstdint>

namespace dlhook::inline runtime {

enum class DrainMode : uint32_t {
  kWriterThread,  // in this process
  kCollector,     // another process (dlhook run) drains
  kNone,          // no process, except one that opens the run (tests)
};

// Whether recording starts at once, by dlhook ctl, or by the program's cudaProfilerStart.
enum class StartMode : uint32_t { kOn, kOff, kProfiler };

// Framework scopes from any tap.
enum class ScopesMode : uint32_t { kOn, kLight, kOff };

// Python stacks: at scopes and at calls outside of framework ops, only at scopes, or none.
enum class PythonMode : uint32_t { kOn, kScopes, kOff };

// Native stacks of calls; kAll: interleaved with Python frames.
enum class StacksMode : uint32_t { kOff, kNative, kAll };

// When counters are read: only at the interval; also at the beginning and end of scopes; also around every recorded
// call.
enum class CountersAt : uint32_t { kTime, kScope, kCall };

// kModules: torch.compile is asked to tell its own loops and their modules.
enum class CompiledMode : uint32_t { kRegions, kModules };

// GPU times: from CUPTI if available, else pairs of events; only one of these; none.
enum class GpuMode : uint32_t { kAuto, kCupti, kEvents, kOff };

enum class GpuGraphs : uint32_t { kNode, kGraph };

enum class OneDnnMode : uint32_t { kAuto, kOff, kForce };

// What recording may add to steps in the mean.
struct Budget {
  uint32_t ppm;        // millionths; 0: records all
  bool is_of_gpu_use;  // only of processes whose GPU times are recorded
};

struct Config {
  char out[4096];                 // DLHOOK_OUT, empty: not set
  uint32_t families;              // DLHOOK_CAPTURE, bit i = kFamilyNames[i]
  uint64_t max_bytes;             // DLHOOK_MAX_BYTES, 0: no limit
  uint64_t ring_bytes_total;      // DLHOOK_RING_KIB
  uint64_t growth_bytes;          // DLHOOK_GROWTH_KIB
  bool monotonic_clock;           // DLHOOK_CLOCK=monotonic
  StartMode start;                // DLHOOK_START
  bool verbose;                   // DLHOOK_VERBOSE
  bool memory;                    // DLHOOK_MEMORY
  DrainMode drain;                // DLHOOK_DRAIN
  char collector[128];            // DLHOOK_COLLECTOR, see NameCollector in format/identity.h
  OneDnnMode onednn;              // DLHOOK_ONEDNN
  int onednn_level;               // DLHOOK_ONEDNN_LEVEL
  ScopesMode scopes;              // DLHOOK_SCOPES
  Budget budget;                  // DLHOOK_BUDGET
  PythonMode python;              // DLHOOK_PYTHON; kOn if DLHOOK_STACKS=all
  CompiledMode compiled;          // DLHOOK_COMPILED
  StacksMode stacks;              // DLHOOK_STACKS
  uint32_t stack_families;        // DLHOOK_STACKS_FAMILIES of DLHOOK_CAPTURE; 0: no stacks
  uint64_t stacks_min_ns;         // DLHOOK_STACKS_MIN_US: shorter calls get none
  uint32_t sample_hz;             // DLHOOK_SAMPLE: of each thread's CPU time, 0: off
  char counters[512];             // DLHOOK_COUNTERS: names of counters and sets, empty: none
  CountersAt counters_at;         // DLHOOK_COUNTERS_AT
  uint32_t counters_interval_ms;  // DLHOOK_COUNTERS_MS; 0: no periodic readings
  GpuMode gpu;                    // DLHOOK_GPU
  GpuGraphs gpu_graphs;           // DLHOOK_GPU_GRAPHS
  uint64_t gpu_buffer_bytes;      // DLHOOK_GPU_BUFFERS_MIB: total size of CUPTI's buffers
  char complaint[256];            // the first invalid value or unknown name, as a clause
};

// The bit of a family in masks, 0 if the name is unknown.
uint32_t FamilyBitOf(const char* name);

// The first "NAME=VALUE" with a name that begins as dlhook's do and is none of them; null: there is none.
const char* FindUnknownVariable(char* const* environment);

// The configuration of this process; reads the environment on first use.
const Config& GetConfig();

// Parses into `config`; `lookup` returns a variable's value or null. Invalid values leave the default and a sentence in
// config->complaint. Pure: unit-tested.
void ParseConfig(const char* (*lookup)(const char* name), Config* config);

}  // namespace dlhook::inline runtime
