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

constexpr uint32_t kSw = PERF_TYPE_SOFTWARE;

// Sets in their order in kCounterSets.
constexpr uint8_t kSoftware = 1, kBasic = 2, kCache = 4, kFlops = 8, kTopdown = 16;

// Counters of the kernel and getrusage; of the processor: general ones, of its caches, and those that only some cores have.
constexpr CounterLine Of(uint8_t sources, uint32_t type, const char* name, uint64_t config, const char* meaning,
                         uint8_t sets = 0, uint16_t flags = 0, const char* alias = nullptr) {
  return {name, alias, meaning, type, config, sources, sets, kAny, kAny, flags};
}
constexpr CounterLine Hw(const char* name, uint64_t config, const char* meaning, uint8_t sets = 0,
                         const char* alias = nullptr, uint32_t set_cores = kAny) {
  return {name, alias, meaning, PERF_TYPE_HARDWARE, config, kPmu, sets, set_cores, kAny, 0};
}
constexpr CounterLine InCache(const char* name, uint64_t config, const char* meaning, uint8_t sets = 0,
                              uint32_t set_cores = kAny) {
  return {name, nullptr, meaning, PERF_TYPE_HW_CACHE, config, kPmu, sets, set_cores, kAny, 0};
}
constexpr CounterLine Raw(uint32_t cores, const char* name, uint64_t config, const char* meaning, uint8_t sets = 0,
                          uint16_t flags = 0, uint32_t set_cores = kAny) {
  const uint8_t sources = (flags & (kLeads | kNeedsSlots)) != 0 ? kPerf : kPmu;
  return {name, nullptr, meaning, PERF_TYPE_RAW, config, sources, sets, set_cores, cores, flags};
}

constexpr CounterLine kLines[] = {
    Of(kPerf | kUsage, kSw, "task-clock", PERF_COUNT_SW_TASK_CLOCK, "ns on a processor", kSoftware, kInNs),
    Of(kPerf, kSw, "cpu-clock", PERF_COUNT_SW_CPU_CLOCK, "ns on a processor, by another timer", 0, kInNs),
    Of(kPerf | kUsage, kSw, "page-faults", PERF_COUNT_SW_PAGE_FAULTS, "page faults", 0, 0, "faults"),
    Of(kPerf | kUsage, kSw, "minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN, "page faults without I/O", kSoftware),
    Of(kPerf | kUsage, kSw, "major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ, "page faults that waited for a disk",
       kSoftware),
    Of(kPerf | kUsage, kSw, "context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES, "changes to another thread", 0,
       kInKernel, "cs"),
    Of(kUsage, kNoPerfType, "voluntary-switches", 0, "changes to another thread as this one waited", kSoftware,
       kInKernel),
    Of(kUsage, kNoPerfType, "involuntary-switches", 0, "changes to another thread although this one could have run",
       kSoftware, kInKernel),
    Of(kPerf | kProcFiles, kSw, "cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS, "moves to another processor", kSoftware,
       kInKernel, "migrations"),
    Of(kPerf, kSw, "alignment-faults", PERF_COUNT_SW_ALIGNMENT_FAULTS, "misaligned accesses fixed up by the kernel"),
    Hw("cycles", PERF_COUNT_HW_CPU_CYCLES, "core cycles, not while halted", kBasic, "cpu-cycles"),
    Hw("instructions", PERF_COUNT_HW_INSTRUCTIONS, "instructions retired", kBasic | kCache),
    Hw("branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches retired", kBasic, "branch-instructions"),
    Hw("branch-misses", PERF_COUNT_HW_BRANCH_MISSES, "branches predicted wrongly", kBasic),
    Hw("ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES, "cycles at a constant rate, not while halted"),
    Hw("bus-cycles", PERF_COUNT_HW_BUS_CYCLES, "cycles of the bus"),
    Hw("stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, "cycles without instructions to issue"),
    Hw("stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND, "cycles without room to issue into"),
    Hw("cache-references", PERF_COUNT_HW_CACHE_REFERENCES, "accesses of the last level (Intel) or of L2 (AMD)", kCache,
       nullptr, kZen),
    Hw("cache-misses", PERF_COUNT_HW_CACHE_MISSES, "misses of the last level (Intel) or of L2 (AMD)", kCache, nullptr,
       kZen),
    InCache("L1-dcache-loads", Load(PERF_COUNT_HW_CACHE_L1D), "loads of data", kCache),
    InCache("L1-dcache-load-misses", LoadMiss(PERF_COUNT_HW_CACHE_L1D), "loads that missed L1", kCache),
    InCache("L1-dcache-stores", Store(PERF_COUNT_HW_CACHE_L1D), "stores"),
    InCache("L1-icache-load-misses", LoadMiss(PERF_COUNT_HW_CACHE_L1I), "instruction fetches that missed L1"),
    InCache("LLC-loads", Load(PERF_COUNT_HW_CACHE_LL), "loads that reached the last level", kCache, kNotZen),
    InCache("LLC-load-misses", LoadMiss(PERF_COUNT_HW_CACHE_LL), "loads that missed the last level", kCache, kNotZen),
    InCache("LLC-stores", Store(PERF_COUNT_HW_CACHE_LL), "stores that reached the last level"),
    InCache("dTLB-loads", Load(PERF_COUNT_HW_CACHE_DTLB), "loads that asked the data TLB"),
    InCache("dTLB-load-misses", LoadMiss(PERF_COUNT_HW_CACHE_DTLB), "loads that missed the data TLB", kCache),
    InCache("iTLB-load-misses", LoadMiss(PERF_COUNT_HW_CACHE_ITLB), "fetches that missed the instruction TLB"),
    // Fills of L1 from DRAM or I/O of any node, prefetches included (mem_io_local and _remote of Zen 3, dram_io_all
    // since Zen 4).
    Raw(kZen3 | kAmdSlots, "ls_any_fills_from_sys.dram_io_all", 0x4844,
        "cache lines that came from memory, prefetched ones too", kCache),

    // Intel counts instructions by width; an FMA counts twice. The set uses the sums of equal width, which need fewer
    // counters.
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.SCALAR", 0x03c7, "scalar: 1 operation each", kFlops),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", 0x04c7, "128 bit, double: 2 each", kFlops),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.4_FLOPS", 0x18c7, "128 bit single, 256 bit double: 4 each", kFlops),
    Raw(kWideIntel, "FP_ARITH_INST_RETIRED.8_FLOPS", 0x60c7, "256 bit single, 512 bit double: 8 each", kFlops),
    Raw(kWideIntel, "FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE", 0x80c7, "512 bit, single: 16 each", kFlops),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE", 0x20c7, "256 bit, single: 8 each", kFlops, 0,
        kBroadwell | kSkylake | kAlderLake),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.SCALAR_DOUBLE", 0x01c7, "scalar, double"),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.SCALAR_SINGLE", 0x02c7, "scalar, single"),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.128B_PACKED_SINGLE", 0x08c7, "128 bit, single"),
    Raw(kFpArith, "FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE", 0x10c7, "256 bit, double"),
    Raw(kWideIntel, "FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE", 0x40c7, "512 bit, double"),
    Raw(kSandyBridge | kIvyBridge, "FP_COMP_OPS_EXE.SSE_SCALAR_SINGLE", 0x2010,
        "scalar, single, issued: repeated ones count again", kFlops),
    Raw(kSandyBridge | kIvyBridge, "FP_COMP_OPS_EXE.SSE_SCALAR_DOUBLE", 0x8010, "scalar, double, issued", kFlops),
    Raw(kSandyBridge | kIvyBridge, "FP_COMP_OPS_EXE.SSE_PACKED_DOUBLE", 0x1010, "128 bit, double, issued", kFlops),
    Raw(kSandyBridge | kIvyBridge, "FP_COMP_OPS_EXE.SSE_PACKED_SINGLE", 0x4010, "128 bit, single, issued", kFlops),
    Raw(kSandyBridge | kIvyBridge, "SIMD_FP_256.PACKED_DOUBLE", 0x0211, "256 bit, double, issued", kFlops),
    Raw(kSandyBridge | kIvyBridge, "SIMD_FP_256.PACKED_SINGLE", 0x0111, "256 bit, single, issued", kFlops),
    // AMD counts operations; a multiply-add is two.
    Raw(kZen1 | kZen2 | kZen3, "fp_ret_sse_avx_ops.all", 0xff03, "floating-point operations of SSE and AVX", kFlops),
    Raw(kZen4, "fp_ret_sse_avx_ops.all", 0x1f03, "floating-point operations of SSE and AVX", kFlops),
    Raw(kZen5, "fp_ret_sse_avx_ops.all", 0x0f03, "floating-point operations of SSE and AVX", kFlops),

    // Top-Down level 1 by the processor's own metrics: Linux's Documentation/topdown.txt. rdpmc returns ratios there,
    // not counts.
    Raw(kByMetrics, "slots", 0x0400, "pipeline slots", kTopdown, kLeads),
    Raw(kByMetrics, "topdown-retiring", 0x8000, "slots of instructions that retired", kTopdown, kNeedsSlots),
    Raw(kByMetrics, "topdown-bad-spec", 0x8100, "slots of wrong speculation", kTopdown, kNeedsSlots),
    Raw(kByMetrics, "topdown-fe-bound", 0x8200, "slots that the front end left empty", kTopdown, kNeedsSlots),
    Raw(kByMetrics, "topdown-be-bound", 0x8300, "slots that the back end did not take", kTopdown, kNeedsSlots),
    // … and by events, for processors without these metrics (4 slots per cycle).
    Raw(kByEvents, "CPU_CLK_UNHALTED.THREAD", 0x003c, "core cycles, not while halted", kTopdown),
    Raw(kByEvents, "UOPS_ISSUED.ANY", 0x010e, "micro-operations issued", kTopdown),
    Raw(kByEvents, "UOPS_RETIRED.RETIRE_SLOTS", 0x02c2, "slots of micro-operations that retired", kTopdown),
    Raw(kByEvents, "IDQ_UOPS_NOT_DELIVERED.CORE", 0x019c, "slots that the front end left empty", kTopdown),
    Raw(kOldRecovery, "INT_MISC.RECOVERY_CYCLES", 0x0100030d, "cycles of recovery from wrong speculation", kTopdown,
        kWithoutSmt),
    Raw(kSkylake | kSkylakeServer, "INT_MISC.RECOVERY_CYCLES", 0x010d, "cycles of recovery from wrong speculation",
        kTopdown, kWithoutSmt),
    // With two threads per core (Intel's TMA metrics: CORE_CLKS and Recovery_Cycles).
    Raw(kOldRecovery, "INT_MISC.RECOVERY_CYCLES_ANY", 0x0120030d, "cycles of recovery, of both threads of the core",
        kTopdown, kWithSmt),
    Raw(kSkylake | kSkylakeServer, "INT_MISC.RECOVERY_CYCLES_ANY", 0x20010d,
        "cycles of recovery, of both threads of the core", kTopdown, kWithSmt),
    Raw(kByEvents, "CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", 0x023c,
        "crystal cycles while the core's other thread is halted", kTopdown, kWithSmt),
    Raw(kByEvents, "CPU_CLK_UNHALTED.REF_XCLK", 0x013c, "crystal cycles, not while halted", kTopdown, kWithSmt),
    // AMD's "pipeline utilization". Cycles are named by their number of slots: 6 on Zen 4, 8 on Zen 5.
    Raw(kZen4, "ls_not_halted_cyc.6_slots", 0x76, "core cycles of 6 slots, not while halted", kTopdown),
    Raw(kZen5, "ls_not_halted_cyc.8_slots", 0x76, "core cycles of 8 slots, not while halted", kTopdown),
    Raw(kAmdSlots, "de_src_op_disp.all", 0x07aa, "operations dispatched", kTopdown),
    Raw(kAmdSlots, "ex_ret_ops", 0xc1, "operations retired", kTopdown),
    Raw(kAmdSlots, "de_no_dispatch_per_slot.no_ops_from_frontend", 0x1000001a0, "slots that the front end left empty",
        kTopdown),
    Raw(kAmdSlots, "de_no_dispatch_per_slot.backend_stalls", 0x100001ea0, "slots that the back end did not take",
        kTopdown),
    Raw(kAmdSlots, "de_no_dispatch_per_slot.smt_contention", 0x1000060a0, "slots of the core's other thread", kTopdown,
        kWithSmt),
};

struct Models {
  uint32_t family;  // 6: Intel's
  uint32_t first_model;
  uint32_t last_model;
  Microarchitecture core;
};

constexpr Models kModels[] = {
    {6, 0x2a, 0x2a, kSandyBridge},    {6, 0x2d, 0x2d, kSandyBridge},    {6, 0x3a, 0x3a, kIvyBridge},
    {6, 0x3e, 0x3e, kIvyBridge},      {6, 0x3c, 0x3c, kHaswell},        {6, 0x3f, 0x3f, kHaswell},
    {6, 0x45, 0x46, kHaswell},        {6, 0x3d, 0x3d, kBroadwell},      {6, 0x47, 0x47, kBroadwell},
    {6, 0x4f, 0x4f, kBroadwell},      {6, 0x56, 0x56, kBroadwell},      {6, 0x4e, 0x4e, kSkylake},
    {6, 0x5e, 0x5e, kSkylake},        {6, 0x8e, 0x8e, kSkylake},        {6, 0x9e, 0x9e, kSkylake},
    {6, 0xa5, 0xa6, kSkylake},        {6, 0x55, 0x55, kSkylakeServer},  {6, 0x6a, 0x6a, kIceLake},
    {6, 0x6c, 0x6c, kIceLake},        {6, 0x7d, 0x7e, kIceLake},        {6, 0x8c, 0x8d, kIceLake},
    {6, 0xa7, 0xa7, kIceLake},        {6, 0x8f, 0x8f, kSapphireRapids}, {6, 0xcf, 0xcf, kSapphireRapids},
    {6, 0xad, 0xae, kSapphireRapids}, {6, 0x97, 0x97, kAlderLake},      {6, 0x9a, 0x9a, kAlderLake},
    {6, 0xb7, 0xb7, kAlderLake},      {6, 0xba, 0xba, kAlderLake},      {6, 0xbf, 0xbf, kAlderLake},
    {6, 0xaa, 0xaa, kAlderLake},      {6, 0xac, 0xac, kAlderLake},      {6, 0xb5, 0xb5, kAlderLake},
    {0x17, 0x00, 0x2f, kZen1},        {0x17, 0x50, 0x5f, kZen1},        {0x17, 0x30, 0x4f, kZen2},
    {0x17, 0x60, 0x7f, kZen2},        {0x17, 0x90, 0x91, kZen2},        {0x17, 0xa0, 0xaf, kZen2},
    {0x19, 0x00, 0x0f, kZen3},        {0x19, 0x20, 0x5f, kZen3},        {0x19, 0x10, 0x1f, kZen4},
    {0x19, 0x60, 0xaf, kZen4},        {0x1a, 0x00, 0x2f, kZen5},        {0x1a, 0x40, 0x4f, kZen5},
    {0x1a, 0x60, 0x7f, kZen5},
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

std::span<const CounterLine> CounterLines() { return kLines; }

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
      bool is_of_vendor = (models.family == 6) == is_intel && models.family == family;
      if (is_of_vendor && models.first_model <= model && model <= models.last_model) processor.core = models.core;
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
