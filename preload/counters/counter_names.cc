// The tables of counters and sets.
//
// Sources of the events: Intel's perfmon (github.com/intel/perfmon, SNB to GNR *_core.json), AMD's in Linux
// (tools/perf/pmu-events/arch/x86/amdzen1 to amdzen5), perf_event_open(2) and tools/perf/Documentation/topdown.txt for
// the rest. To add a counter, add a line to kLines. To add it to a set on some cores, set the set's bit there.
#include "preload/counters/counter_names.h"

#include <linux/perf_event.h>
#include <stdio.h>

#include "preload/format/processor_id.h"

namespace dlhook::inline counters {
namespace {

constexpr uint32_t kAny = 0;
constexpr uint32_t kWideIntel = kSkylakeServer | kIceLake | kSapphireRapids;  // AVX-512
constexpr uint32_t kFpArith = kBroadwell | kSkylake | kAlderLake | kWideIntel;
constexpr uint32_t kOldRecovery = kSandyBridge | kIvyBridge | kHaswell | kBroadwell;
constexpr uint32_t kByEvents = kOldRecovery | kSkylake | kSkylakeServer;
constexpr uint32_t kByMetrics = kIceLake | kSapphireRapids | kAlderLake;
constexpr uint32_t kAmdSlots = kZen4 | kZen5;
constexpr uint32_t kZen = kZen1 | kZen2 | kZen3 | kAmdSlots;

constexpr uint64_t Cache(uint64_t which, uint64_t operation, uint64_t result) {
  return which | operation << 8 | result << 16;
}
constexpr uint64_t Load(uint64_t which) {
  return Cache(which, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_ACCESS);
}
constexpr uint64_t LoadMiss(uint64_t which) {
  return Cache(which, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS);
}
constexpr uint64_t Store(uint64_t which) {
  return Cache(which, PERF_COUNT_HW_CACHE_OP_WRITE, PERF_COUNT_HW_CACHE_RESULT_ACCESS);
}

constexpr uint8_t kPerf = SourceBit(CounterSource::kPerfRead);
constexpr uint8_t kPmu = kPerf | SourceBit(CounterSource::kPerfRdpmc);
constexpr uint8_t kUsage = SourceBit(CounterSource::kRusage) | SourceBit(CounterSource::kProc);
constexpr uint8_t kProcFiles = SourceBit(CounterSource::kProc);

constexpr uint32_t kHw = PERF_TYPE_HARDWARE;
constexpr uint32_t kSw = PERF_TYPE_SOFTWARE;
constexpr uint32_t kHwCache = PERF_TYPE_HW_CACHE;
constexpr uint32_t kRaw = PERF_TYPE_RAW;

// Sets in their order in kCounterSets.
constexpr uint8_t kSoftware = 1, kBasic = 2, kCache = 4, kFlops = 8, kTopdown = 16;

constexpr CounterLine kLines[] = {
    // name, alias, meaning, perf type and config, sources, sets, cores of the sets, cores, flags
    {"task-clock", nullptr, "ns on a processor", kSw, PERF_COUNT_SW_TASK_CLOCK, kPerf | kUsage, kSoftware, kAny, kAny,
     kInNs},
    {"cpu-clock", nullptr, "ns on a processor, by another timer", kSw, PERF_COUNT_SW_CPU_CLOCK, kPerf, 0, kAny, kAny,
     kInNs},
    {"page-faults", "faults", "page faults", kSw, PERF_COUNT_SW_PAGE_FAULTS, kPerf | kUsage, 0, kAny, kAny, 0},
    {"minor-faults", nullptr, "page faults without I/O", kSw, PERF_COUNT_SW_PAGE_FAULTS_MIN, kPerf | kUsage, kSoftware,
     kAny, kAny, 0},
    {"major-faults", nullptr, "page faults that waited for a disk", kSw, PERF_COUNT_SW_PAGE_FAULTS_MAJ, kPerf | kUsage,
     kSoftware, kAny, kAny, 0},
    {"context-switches", "cs", "changes to another thread", kSw, PERF_COUNT_SW_CONTEXT_SWITCHES, kPerf | kUsage, 0,
     kAny, kAny, kInKernel},
    {"voluntary-switches", nullptr, "changes to another thread as this one waited", kNoPerfType, 0, kUsage, kSoftware,
     kAny, kAny, kInKernel},
    {"involuntary-switches", nullptr, "changes to another thread although this one could have run", kNoPerfType, 0,
     kUsage, kSoftware, kAny, kAny, kInKernel},
    {"cpu-migrations", "migrations", "moves to another processor", kSw, PERF_COUNT_SW_CPU_MIGRATIONS,
     kPerf | kProcFiles, kSoftware, kAny, kAny, kInKernel},
    {"alignment-faults", nullptr, "misaligned accesses fixed up by the kernel", kSw, PERF_COUNT_SW_ALIGNMENT_FAULTS,
     kPerf, 0, kAny, kAny, 0},
    {"cycles", "cpu-cycles", "core cycles, not while halted", kHw, PERF_COUNT_HW_CPU_CYCLES, kPmu, kBasic, kAny, kAny,
     0},
    {"instructions", nullptr, "instructions retired", kHw, PERF_COUNT_HW_INSTRUCTIONS, kPmu, kBasic | kCache, kAny,
     kAny, 0},
    {"branches", "branch-instructions", "branches retired", kHw, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, kPmu, kBasic, kAny,
     kAny, 0},
    {"branch-misses", nullptr, "branches predicted wrongly", kHw, PERF_COUNT_HW_BRANCH_MISSES, kPmu, kBasic, kAny, kAny,
     0},
    {"ref-cycles", nullptr, "cycles at a constant rate, not while halted", kHw, PERF_COUNT_HW_REF_CPU_CYCLES, kPmu, 0,
     kAny, kAny, 0},
    {"bus-cycles", nullptr, "cycles of the bus", kHw, PERF_COUNT_HW_BUS_CYCLES, kPmu, 0, kAny, kAny, 0},
    {"stalled-cycles-frontend", nullptr, "cycles without instructions to issue", kHw,
     PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, kPmu, 0, kAny, kAny, 0},
    {"stalled-cycles-backend", nullptr, "cycles without room to issue into", kHw, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
     kPmu, 0, kAny, kAny, 0},
    {"cache-references", nullptr, "accesses of the last level (Intel) or of L2 (AMD)", kHw,
     PERF_COUNT_HW_CACHE_REFERENCES, kPmu, kCache, kZen, kAny, 0},
    {"cache-misses", nullptr, "misses of the last level (Intel) or of L2 (AMD)", kHw, PERF_COUNT_HW_CACHE_MISSES, kPmu,
     kCache, kZen, kAny, 0},
    {"L1-dcache-loads", nullptr, "loads of data", kHwCache, Load(PERF_COUNT_HW_CACHE_L1D), kPmu, kCache, kAny, kAny, 0},
    {"L1-dcache-load-misses", nullptr, "loads that missed L1", kHwCache, LoadMiss(PERF_COUNT_HW_CACHE_L1D), kPmu,
     kCache, kAny, kAny, 0},
    {"L1-dcache-stores", nullptr, "stores", kHwCache, Store(PERF_COUNT_HW_CACHE_L1D), kPmu, 0, kAny, kAny, 0},
    {"L1-icache-load-misses", nullptr, "instruction fetches that missed L1", kHwCache,
     LoadMiss(PERF_COUNT_HW_CACHE_L1I), kPmu, 0, kAny, kAny, 0},
    {"LLC-loads", nullptr, "loads that reached the last level", kHwCache, Load(PERF_COUNT_HW_CACHE_LL), kPmu, kCache,
     kNotZen, kAny, 0},
    {"LLC-load-misses", nullptr, "loads that missed the last level", kHwCache, LoadMiss(PERF_COUNT_HW_CACHE_LL), kPmu,
     kCache, kNotZen, kAny, 0},
    {"LLC-stores", nullptr, "stores that reached the last level", kHwCache, Store(PERF_COUNT_HW_CACHE_LL), kPmu, 0,
     kAny, kAny, 0},
    {"dTLB-loads", nullptr, "loads that asked the data TLB", kHwCache, Load(PERF_COUNT_HW_CACHE_DTLB), kPmu, 0, kAny,
     kAny, 0},
    {"dTLB-load-misses", nullptr, "loads that missed the data TLB", kHwCache, LoadMiss(PERF_COUNT_HW_CACHE_DTLB), kPmu,
     kCache, kAny, kAny, 0},
    {"iTLB-load-misses", nullptr, "fetches that missed the instruction TLB", kHwCache,
     LoadMiss(PERF_COUNT_HW_CACHE_ITLB), kPmu, 0, kAny, kAny, 0},
    // Fills of L1 from DRAM or I/O of any node, prefetches included (mem_io_local and _remote of Zen 3, dram_io_all
    // since Zen 4).
    {"ls_any_fills_from_sys.dram_io_all", nullptr, "cache lines that came from memory, prefetched ones too", kRaw,
     0x4844, kPmu, kCache, kAny, kZen3 | kAmdSlots, 0},

    // Intel counts instructions by width; an FMA counts twice. The set uses the sums of equal width, which need fewer
    // counters.
    {"FP_ARITH_INST_RETIRED.SCALAR", nullptr, "scalar: 1 operation each", kRaw, 0x03c7, kPmu, kFlops, kAny, kFpArith,
     0},
    {"FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", nullptr, "128 bit, double: 2 each", kRaw, 0x04c7, kPmu, kFlops, kAny,
     kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.4_FLOPS", nullptr, "128 bit single, 256 bit double: 4 each", kRaw, 0x18c7, kPmu, kFlops,
     kAny, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.8_FLOPS", nullptr, "256 bit single, 512 bit double: 8 each", kRaw, 0x60c7, kPmu, kFlops,
     kAny, kWideIntel, 0},
    {"FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE", nullptr, "512 bit, single: 16 each", kRaw, 0x80c7, kPmu, kFlops, kAny,
     kWideIntel, 0},
    {"FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE", nullptr, "256 bit, single: 8 each", kRaw, 0x20c7, kPmu, kFlops,
     kBroadwell | kSkylake | kAlderLake, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.SCALAR_DOUBLE", nullptr, "scalar, double", kRaw, 0x01c7, kPmu, 0, kAny, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.SCALAR_SINGLE", nullptr, "scalar, single", kRaw, 0x02c7, kPmu, 0, kAny, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.128B_PACKED_SINGLE", nullptr, "128 bit, single", kRaw, 0x08c7, kPmu, 0, kAny, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE", nullptr, "256 bit, double", kRaw, 0x10c7, kPmu, 0, kAny, kFpArith, 0},
    {"FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE", nullptr, "512 bit, double", kRaw, 0x40c7, kPmu, 0, kAny, kWideIntel,
     0},
    {"FP_COMP_OPS_EXE.SSE_SCALAR_SINGLE", nullptr, "scalar, single, issued: repeated ones count again", kRaw, 0x2010,
     kPmu, kFlops, kAny, kSandyBridge | kIvyBridge, 0},
    {"FP_COMP_OPS_EXE.SSE_SCALAR_DOUBLE", nullptr, "scalar, double, issued", kRaw, 0x8010, kPmu, kFlops, kAny,
     kSandyBridge | kIvyBridge, 0},
    {"FP_COMP_OPS_EXE.SSE_PACKED_DOUBLE", nullptr, "128 bit, double, issued", kRaw, 0x1010, kPmu, kFlops, kAny,
     kSandyBridge | kIvyBridge, 0},
    {"FP_COMP_OPS_EXE.SSE_PACKED_SINGLE", nullptr, "128 bit, single, issued", kRaw, 0x4010, kPmu, kFlops, kAny,
     kSandyBridge | kIvyBridge, 0},
    {"SIMD_FP_256.PACKED_DOUBLE", nullptr, "256 bit, double, issued", kRaw, 0x0211, kPmu, kFlops, kAny,
     kSandyBridge | kIvyBridge, 0},
    {"SIMD_FP_256.PACKED_SINGLE", nullptr, "256 bit, single, issued", kRaw, 0x0111, kPmu, kFlops, kAny,
     kSandyBridge | kIvyBridge, 0},
    // AMD counts operations; a multiply-add is two.
    {"fp_ret_sse_avx_ops.all", nullptr, "floating-point operations of SSE and AVX", kRaw, 0xff03, kPmu, kFlops, kAny,
     kZen1 | kZen2 | kZen3, 0},
    {"fp_ret_sse_avx_ops.all", nullptr, "floating-point operations of SSE and AVX", kRaw, 0x1f03, kPmu, kFlops, kAny,
     kZen4, 0},
    {"fp_ret_sse_avx_ops.all", nullptr, "floating-point operations of SSE and AVX", kRaw, 0x0f03, kPmu, kFlops, kAny,
     kZen5, 0},

    // Top-Down level 1 by the processor's own metrics: Linux's Documentation/topdown.txt. rdpmc returns ratios there,
    // not counts.
    {"slots", nullptr, "pipeline slots", kRaw, 0x0400, kPerf, kTopdown, kAny, kByMetrics, kLeads},
    {"topdown-retiring", nullptr, "slots of instructions that retired", kRaw, 0x8000, kPerf, kTopdown, kAny, kByMetrics,
     kNeedsSlots},
    {"topdown-bad-spec", nullptr, "slots of wrong speculation", kRaw, 0x8100, kPerf, kTopdown, kAny, kByMetrics,
     kNeedsSlots},
    {"topdown-fe-bound", nullptr, "slots that the front end left empty", kRaw, 0x8200, kPerf, kTopdown, kAny,
     kByMetrics, kNeedsSlots},
    {"topdown-be-bound", nullptr, "slots that the back end did not take", kRaw, 0x8300, kPerf, kTopdown, kAny,
     kByMetrics, kNeedsSlots},
    // … and by events, for processors without these metrics (4 slots per cycle).
    {"CPU_CLK_UNHALTED.THREAD", nullptr, "core cycles, not while halted", kRaw, 0x003c, kPmu, kTopdown, kAny, kByEvents,
     0},
    {"UOPS_ISSUED.ANY", nullptr, "micro-operations issued", kRaw, 0x010e, kPmu, kTopdown, kAny, kByEvents, 0},
    {"UOPS_RETIRED.RETIRE_SLOTS", nullptr, "slots of micro-operations that retired", kRaw, 0x02c2, kPmu, kTopdown, kAny,
     kByEvents, 0},
    {"IDQ_UOPS_NOT_DELIVERED.CORE", nullptr, "slots that the front end left empty", kRaw, 0x019c, kPmu, kTopdown, kAny,
     kByEvents, 0},
    {"INT_MISC.RECOVERY_CYCLES", nullptr, "cycles of recovery from wrong speculation", kRaw, 0x0100030d, kPmu, kTopdown,
     kAny, kOldRecovery, kWithoutSmt},
    {"INT_MISC.RECOVERY_CYCLES", nullptr, "cycles of recovery from wrong speculation", kRaw, 0x010d, kPmu, kTopdown,
     kAny, kSkylake | kSkylakeServer, kWithoutSmt},
    // With two threads per core (Intel's TMA metrics: CORE_CLKS and Recovery_Cycles).
    {"INT_MISC.RECOVERY_CYCLES_ANY", nullptr, "cycles of recovery, of both threads of the core", kRaw, 0x0120030d, kPmu,
     kTopdown, kAny, kOldRecovery, kWithSmt},
    {"INT_MISC.RECOVERY_CYCLES_ANY", nullptr, "cycles of recovery, of both threads of the core", kRaw, 0x20010d, kPmu,
     kTopdown, kAny, kSkylake | kSkylakeServer, kWithSmt},
    {"CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", nullptr, "crystal cycles while the core's other thread is halted", kRaw,
     0x023c, kPmu, kTopdown, kAny, kByEvents, kWithSmt},
    {"CPU_CLK_UNHALTED.REF_XCLK", nullptr, "crystal cycles, not while halted", kRaw, 0x013c, kPmu, kTopdown, kAny,
     kByEvents, kWithSmt},
    // AMD's "pipeline utilization". Cycles are named by their number of slots: 6 on Zen 4, 8 on Zen 5.
    {"ls_not_halted_cyc.6_slots", nullptr, "core cycles of 6 slots, not while halted", kRaw, 0x76, kPmu, kTopdown, kAny,
     kZen4, 0},
    {"ls_not_halted_cyc.8_slots", nullptr, "core cycles of 8 slots, not while halted", kRaw, 0x76, kPmu, kTopdown, kAny,
     kZen5, 0},
    {"de_src_op_disp.all", nullptr, "operations dispatched", kRaw, 0x07aa, kPmu, kTopdown, kAny, kAmdSlots, 0},
    {"ex_ret_ops", nullptr, "operations retired", kRaw, 0xc1, kPmu, kTopdown, kAny, kAmdSlots, 0},
    {"de_no_dispatch_per_slot.no_ops_from_frontend", nullptr, "slots that the front end left empty", kRaw, 0x1000001a0,
     kPmu, kTopdown, kAny, kAmdSlots, 0},
    {"de_no_dispatch_per_slot.backend_stalls", nullptr, "slots that the back end did not take", kRaw, 0x100001ea0, kPmu,
     kTopdown, kAny, kAmdSlots, 0},
    {"de_no_dispatch_per_slot.smt_contention", nullptr, "slots of the core's other thread", kRaw, 0x1000060a0, kPmu,
     kTopdown, kAny, kAmdSlots, kWithSmt},
};
constexpr size_t kLineCount = sizeof kLines / sizeof kLines[0];

struct Models {
  bool is_intel;
  uint32_t family;
  uint32_t first_model;
  uint32_t last_model;
  Microarchitecture core;
};

constexpr Models kModels[] = {
    {true, 6, 0x2a, 0x2a, kSandyBridge},    {true, 6, 0x2d, 0x2d, kSandyBridge},
    {true, 6, 0x3a, 0x3a, kIvyBridge},      {true, 6, 0x3e, 0x3e, kIvyBridge},
    {true, 6, 0x3c, 0x3c, kHaswell},        {true, 6, 0x3f, 0x3f, kHaswell},
    {true, 6, 0x45, 0x46, kHaswell},        {true, 6, 0x3d, 0x3d, kBroadwell},
    {true, 6, 0x47, 0x47, kBroadwell},      {true, 6, 0x4f, 0x4f, kBroadwell},
    {true, 6, 0x56, 0x56, kBroadwell},      {true, 6, 0x4e, 0x4e, kSkylake},
    {true, 6, 0x5e, 0x5e, kSkylake},        {true, 6, 0x8e, 0x8e, kSkylake},
    {true, 6, 0x9e, 0x9e, kSkylake},        {true, 6, 0xa5, 0xa6, kSkylake},
    {true, 6, 0x55, 0x55, kSkylakeServer},  {true, 6, 0x6a, 0x6a, kIceLake},
    {true, 6, 0x6c, 0x6c, kIceLake},        {true, 6, 0x7d, 0x7e, kIceLake},
    {true, 6, 0x8c, 0x8d, kIceLake},        {true, 6, 0xa7, 0xa7, kIceLake},
    {true, 6, 0x8f, 0x8f, kSapphireRapids}, {true, 6, 0xcf, 0xcf, kSapphireRapids},
    {true, 6, 0xad, 0xae, kSapphireRapids}, {true, 6, 0x97, 0x97, kAlderLake},
    {true, 6, 0x9a, 0x9a, kAlderLake},      {true, 6, 0xb7, 0xb7, kAlderLake},
    {true, 6, 0xba, 0xba, kAlderLake},      {true, 6, 0xbf, 0xbf, kAlderLake},
    {true, 6, 0xaa, 0xaa, kAlderLake},      {true, 6, 0xac, 0xac, kAlderLake},
    {true, 6, 0xb5, 0xb5, kAlderLake},      {false, 0x17, 0x00, 0x2f, kZen1},
    {false, 0x17, 0x50, 0x5f, kZen1},       {false, 0x17, 0x30, 0x4f, kZen2},
    {false, 0x17, 0x60, 0x7f, kZen2},       {false, 0x17, 0x90, 0x91, kZen2},
    {false, 0x17, 0xa0, 0xaf, kZen2},       {false, 0x19, 0x00, 0x0f, kZen3},
    {false, 0x19, 0x20, 0x5f, kZen3},       {false, 0x19, 0x10, 0x1f, kZen4},
    {false, 0x19, 0x60, 0xaf, kZen4},       {false, 0x1a, 0x00, 0x2f, kZen5},
    {false, 0x1a, 0x40, 0x4f, kZen5},       {false, 0x1a, 0x60, 0x7f, kZen5},
};

const char* NameOf(Microarchitecture core) {
  static const struct {
    Microarchitecture core;
    const char* name;
  } kNames[] = {{kSandyBridge, "Sandy Bridge"},
                {kIvyBridge, "Ivy Bridge"},
                {kHaswell, "Haswell"},
                {kBroadwell, "Broadwell"},
                {kSkylake, "Skylake"},
                {kSkylakeServer, "Skylake-SP or Cascade Lake"},
                {kIceLake, "Ice or Tiger Lake"},
                {kSapphireRapids, "Sapphire, Emerald or Granite Rapids"},
                {kAlderLake, "Alder, Raptor or Meteor Lake, with cores of two kinds"},
                {kZen1, "Zen"},
                {kZen2, "Zen 2"},
                {kZen3, "Zen 3"},
                {kZen4, "Zen 4"},
                {kZen5, "Zen 5"}};
  for (const auto& line : kNames) {
    if (line.core == core) return line.name;
  }
  return "core not known";
}

}  // namespace

const CounterSet kCounterSets[kCounterSetCount] = {
    {"software", "CPU time, page faults, context switches, migrations: on every machine", nullptr},
    {"basic", "cycles, instructions, branches and their misses", nullptr},
    {"cache", "loads and misses of the caches and of the data TLB, fills from memory", nullptr},
    {"flops", "floating-point operations done, by the width of vectors where the processor tells",
     "Intel's cores since Sandy Bridge but Haswell, AMD's since Zen"},
    {"topdown", "Top-Down level 1: retiring, bad speculation, front end, back end",
     "Intel's cores since Sandy Bridge, AMD's since Zen 4"},
};

size_t CounterLineCount() { return kLineCount; }

const CounterLine& CounterLineAt(size_t index) { return kLines[index]; }

bool IsOn(const CounterLine& line, const Processor& processor) {
  return line.cores == 0 || (line.cores & processor.core) != 0;
}

bool IsInSet(const CounterLine& line, size_t set, const Processor& processor) {
  if ((line.sets >> set & 1) == 0 || !IsOn(line, processor)) return false;
  if ((line.flags & kWithSmt) != 0 && !processor.has_smt) return false;
  if ((line.flags & kWithoutSmt) != 0 && processor.has_smt) return false;
  if (line.set_cores == kNotZen) return (processor.core & kZen) == 0;
  return line.set_cores == 0 || (line.set_cores & processor.core) != 0;
}

size_t KnownCounterCount() { return kLineCount; }

KnownCounter KnownCounterAt(size_t index) {
  const CounterLine& line = kLines[index];
  return {line.name, line.alias, line.meaning, UnitOf(line), line.cores};
}

// Identifies a processor's core by vendor, family and model. Families and models: Intel's perfmon mapfile.csv
// (github.com/intel/perfmon) and Linux's arch/x86/kernel/cpu/amd.c (bsp_init_amd).
Processor ProcessorOf(const char* vendor, uint32_t family, uint32_t model, bool has_smt) {
  Processor processor = {};
  snprintf(processor.vendor, sizeof processor.vendor, "%s", vendor);
  processor.family = family;
  processor.model = model;
  processor.has_smt = has_smt;
  const bool is_intel = strcmp(vendor, "GenuineIntel") == 0;
  if (is_intel || strcmp(vendor, "AuthenticAMD") == 0) {
    for (const Models& models : kModels) {
      if (models.is_intel == is_intel && models.family == family && models.first_model <= model &&
          model <= models.last_model) {
        processor.core = models.core;
      }
    }
  }
  processor.core_name = NameOf(processor.core);
  return processor;
}

Processor ThisProcessor() {
  const ProcessorId id = IdentifyProcessor();
  return ProcessorOf(id.vendor, id.family, id.model, id.threads_per_core > 1);
}

}  // namespace dlhook::inline counters
