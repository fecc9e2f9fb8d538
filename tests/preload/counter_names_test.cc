// Words of DLHOOK_COUNTERS on processors that this machine does not have: the requests to perf_event, what is refused,
// what is not recognised. Configurations are compared with the vendors' event lists (github.com/intel/perfmon; Linux's
// tools/perf/pmu-events) and with the output of `perf stat -vv`.
#include "preload/counters/counter_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <string.h>

#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "preload/format/processor_id.h"

namespace dlhook {
namespace counter_names_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The relevant sysfs files of an Intel processor (Ice Lake, Linux 6.1).
bool ReadFakeSysfs(const char* path, char* text, size_t size) {
  static const auto& kFiles = *new std::map<std::string, std::string>{
      {"/sys/bus/event_source/devices/cpu/type", "4\n"},
      {"/sys/bus/event_source/devices/cpu/format/event", "config:0-7\n"},
      {"/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"},
      {"/sys/bus/event_source/devices/cpu/format/cmask", "config:24-31\n"},
      {"/sys/bus/event_source/devices/cpu/format/offcore_rsp", "config1:0-63\n"},
      {"/sys/bus/event_source/devices/cpu/events/topdown-retiring", "event=0x00,umask=0x80\n"},
      {"/sys/bus/event_source/devices/amd/type", "4\n"},
      {"/sys/bus/event_source/devices/amd/format/event", "config:0-7,32-35\n"},
      {"/sys/bus/event_source/devices/bad/type", "4\n"},
      {"/sys/bus/event_source/devices/bad/format/event", "config:60-99\n"},
      {"/sys/bus/event_source/devices/bad/events/loop", "loop\n"},
  };
  const auto file = kFiles.find(path);
  if (file == kFiles.end()) return false;
  snprintf(text, size, "%s", file->second.c_str());
  return true;
}

Processor IceLake() { return ProcessorOf("GenuineIntel", 6, 0x6a, true); }

std::unique_ptr<CounterList> Parse(const char* words, const Processor& processor = IceLake()) {
  auto list = std::make_unique<CounterList>();
  memset(list.get(), 0xa5, sizeof *list);  // no field may be assumed to be cleared
  ParseCounters(words, processor, &ReadFakeSysfs, list.get());
  return list;
}

std::vector<std::string> Names(const CounterList& list) {
  std::vector<std::string> names;
  for (size_t i = 0; i < list.count; ++i) names.emplace_back(list.counters[i].name);
  return names;
}

std::map<std::string, uint64_t> Configs(const CounterList& list) {
  std::map<std::string, uint64_t> configs;
  for (size_t i = 0; i < list.count; ++i) configs[list.counters[i].name] = list.counters[i].perf_config;
  return configs;
}

TEST(CounterNames, KnowsProcessorsByFamilyAndModel) {
  const struct {
    const char* vendor;
    uint32_t family, model;
    Microarchitecture core;
  } kCases[] = {{"GenuineIntel", 6, 0x2a, kSandyBridge},    {"GenuineIntel", 6, 0x3f, kHaswell},
                {"GenuineIntel", 6, 0x4f, kBroadwell},      {"GenuineIntel", 6, 0x9e, kSkylake},
                {"GenuineIntel", 6, 0x55, kSkylakeServer},  {"GenuineIntel", 6, 0x6a, kIceLake},
                {"GenuineIntel", 6, 0x8f, kSapphireRapids}, {"GenuineIntel", 6, 0xb7, kAlderLake},
                {"AuthenticAMD", 0x17, 0x08, kZen1},        {"AuthenticAMD", 0x17, 0x31, kZen2},
                {"AuthenticAMD", 0x19, 0x01, kZen3},        {"AuthenticAMD", 0x19, 0x11, kZen4},
                {"AuthenticAMD", 0x1a, 0x02, kZen5},        {"GenuineIntel", 6, 0x1a, kUnknownCore},
                {"AuthenticAMD", 6, 0x55, kUnknownCore},    {"HygonGenuine", 0x18, 0x00, kUnknownCore}};
  for (const auto& one : kCases) {
    EXPECT_EQ(ProcessorOf(one.vendor, one.family, one.model, false).core, one.core)
        << one.vendor << one.family << "/" << one.model;
  }
}

// From the kernel's flags.
uint32_t SetsOf(std::string flags) {
  for (char& c : flags) c = c == '\n' || c == '\t' ? ' ' : c;
  const auto has = [&](const char* flag) { return flags.find(std::string(" ") + flag + " ") != std::string::npos; };
  const auto bit_if = [](bool is_there, uint32_t bit) { return is_there ? bit : 0; };
  return bit_if(has("fma") && has("avx2"), kFma) | bit_if(has("avx512f"), kAvx512) |
         bit_if(has("avx512_vnni"), kAvx512Vnni) | bit_if(has("avx512_bf16"), kAvx512Bf16) |
         bit_if(has("amx_int8"), kAmxInt8) | bit_if(has("amx_bf16"), kAmxBf16);
}

// The processor that runs this test is the one in /proc/cpuinfo.
TEST(CounterNames, ThisProcessorIsTheKernels) {
  FILE* file = fopen("/proc/cpuinfo", "r");
  ASSERT_NE(file, nullptr);
  char line[4096], vendor[64] = "", name[128] = "";
  unsigned family = 0, model = 0, stepping = 0;
  while (fgets(line, sizeof line, file) != nullptr && strncmp(line, "flags", 5) != 0) {
    sscanf(line, "vendor_id : %63s", vendor);
    sscanf(line, "cpu family : %u", &family);
    sscanf(line, "model : %u", &model);
    sscanf(line, "model name : %127[^\n]", name);
    sscanf(line, "stepping : %u", &stepping);
  }
  const uint32_t sets = SetsOf(line);
  fclose(file);
  const ProcessorId id = IdentifyProcessor();
  EXPECT_EQ(id.name, std::regex_replace(std::string(name), std::regex(" +"), " "));
  EXPECT_EQ(id.stepping, stepping);
  EXPECT_EQ(id.instruction_sets, sets);
  const Processor processor = ThisProcessor();
  EXPECT_STREQ(processor.vendor, vendor);
  EXPECT_EQ(processor.family, family);
  EXPECT_EQ(processor.model, model);
}

TEST(CounterNames, WordsComeOnceAndInTheirOrder) {
  const auto list = Parse("cycles,faults,page-faults,,cpu-cycles,instructions,cycles");
  EXPECT_THAT(Names(*list), ElementsAre("cycles", "page-faults", "instructions"));
  EXPECT_STREQ(list->complaint, "");
  EXPECT_EQ(list->counters[0].perf_type, uint32_t{PERF_TYPE_HARDWARE});
  EXPECT_EQ(list->counters[1].perf_type, uint32_t{PERF_TYPE_SOFTWARE});
  EXPECT_EQ(list->counters[1].perf_config, uint64_t{PERF_COUNT_SW_PAGE_FAULTS});
  EXPECT_EQ(list->refused_count, 0u);
}

TEST(CounterNames, OfNothingNothing) {
  EXPECT_THAT(Names(*Parse("")), IsEmpty());
  EXPECT_THAT(Names(*Parse(",,")), IsEmpty());
}

TEST(CounterNames, SoftwareNeedsNoProcessor) {
  const auto list = Parse("software", ProcessorOf("", 0, 0, false));
  EXPECT_THAT(Names(*list), ElementsAre("task-clock", "minor-faults", "major-faults", "voluntary-switches",
                                        "involuntary-switches", "cpu-migrations"));
  EXPECT_EQ(list->counters[0].unit, CounterUnit::kNanoseconds);
  EXPECT_TRUE(list->counters[0].sources & SourceBit(CounterSource::kRusage));
  EXPECT_FALSE(list->counters[5].sources & SourceBit(CounterSource::kRusage));  // getrusage has no migrations
  EXPECT_TRUE(list->counters[5].is_in_kernel);
  EXPECT_EQ(list->counters[3].perf_type, kNoPerfType);
  EXPECT_STREQ(list->counters[0].set, "software");
}

// perf stat -vv -e L1-dcache-load-misses,LLC-load-misses,dTLB-load-misses: type 3, config 0x10000, 0x10002, 0x10003.
TEST(CounterNames, CacheEventsAreThoseOfPerf) {
  const auto list =
      Parse("L1-dcache-loads,L1-dcache-load-misses,LLC-load-misses,dTLB-load-misses,L1-icache-load-misses");
  EXPECT_THAT(Configs(*list), (std::map<std::string, uint64_t>{{"L1-dcache-loads", 0},
                                                               {"L1-dcache-load-misses", 0x10000},
                                                               {"LLC-load-misses", 0x10002},
                                                               {"dTLB-load-misses", 0x10003},
                                                               {"L1-icache-load-misses", 0x10001}}));
  for (size_t i = 0; i < list->count; ++i) EXPECT_EQ(list->counters[i].perf_type, uint32_t{PERF_TYPE_HW_CACHE});
}

// Linux maps no LLC events on AMD: its L3 is not the core's.
TEST(CounterNames, TheCacheSetIsTheProcessors) {
  EXPECT_THAT(Names(*Parse("cache")), ElementsAre("instructions", "L1-dcache-loads", "L1-dcache-load-misses",
                                                  "LLC-loads", "LLC-load-misses", "dTLB-load-misses"));
  EXPECT_THAT(Names(*Parse("cache", ProcessorOf("AuthenticAMD", 0x19, 0x11, true))),
              ElementsAre("instructions", "cache-references", "cache-misses", "L1-dcache-loads",
                          "L1-dcache-load-misses", "dTLB-load-misses", "ls_any_fills_from_sys.dram_io_all"));
}

// Documentation/topdown.txt: slots 0x0400 leads; metrics 0x8000 to 0x8300; none of them by rdpmc.
TEST(CounterNames, TopdownByMetricsSinceIceLake) {
  const auto list = Parse("topdown");
  EXPECT_THAT(Names(*list),
              ElementsAre("slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"));
  const uint64_t kConfigs[] = {0x0400, 0x8000, 0x8100, 0x8200, 0x8300};
  for (size_t i = 0; i < list->count; ++i) {
    EXPECT_EQ(list->counters[i].perf_type, uint32_t{PERF_TYPE_RAW});
    EXPECT_EQ(list->counters[i].perf_config, kConfigs[i]);
    EXPECT_EQ(list->counters[i].leads_group, i == 0);
    EXPECT_EQ(list->counters[i].needs_slots, i != 0);
    EXPECT_FALSE(list->counters[i].sources & SourceBit(CounterSource::kPerfRdpmc));
  }
}

// Skylake: event and umask of perfmon's skylake_core.json. Before it INT_MISC.RECOVERY_CYCLES has umask 3 and cmask 1.
TEST(CounterNames, TopdownByEventsBefore) {
  const auto skylake = Parse("topdown", ProcessorOf("GenuineIntel", 6, 0x9e, false));
  EXPECT_THAT(Configs(*skylake), (std::map<std::string, uint64_t>{{"CPU_CLK_UNHALTED.THREAD", 0x003c},
                                                                  {"UOPS_ISSUED.ANY", 0x010e},
                                                                  {"UOPS_RETIRED.RETIRE_SLOTS", 0x02c2},
                                                                  {"IDQ_UOPS_NOT_DELIVERED.CORE", 0x019c},
                                                                  {"INT_MISC.RECOVERY_CYCLES", 0x010d}}));
  const auto haswell = Parse("topdown", ProcessorOf("GenuineIntel", 6, 0x3c, false));
  EXPECT_EQ(Configs(*haswell)["INT_MISC.RECOVERY_CYCLES"], 0x0100030dU);
  // Two threads per core: perfmon's skylakex_core.json, AnyThread is bit 21.
  const auto smt = Configs(*Parse("topdown", ProcessorOf("GenuineIntel", 6, 0x55, true)));
  EXPECT_EQ(smt.at("INT_MISC.RECOVERY_CYCLES_ANY"), 0x20010dU);
  EXPECT_EQ(smt.at("CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE"), 0x023cU);
  EXPECT_EQ(smt.at("CPU_CLK_UNHALTED.REF_XCLK"), 0x013cU);
  EXPECT_EQ(smt.count("INT_MISC.RECOVERY_CYCLES"), 0u);
}

// amdzen4/other.json: 0x1a0 is in bits 0-7 and 32-35.
TEST(CounterNames, TopdownOfAmdSinceZen4) {
  const auto zen4 = Configs(*Parse("topdown", ProcessorOf("AuthenticAMD", 0x19, 0x11, true)));
  EXPECT_EQ(zen4.at("ls_not_halted_cyc.6_slots"), 0x76U);
  EXPECT_EQ(zen4.at("de_src_op_disp.all"), 0x07aaU);
  EXPECT_EQ(zen4.at("ex_ret_ops"), 0xc1U);
  EXPECT_EQ(zen4.at("de_no_dispatch_per_slot.no_ops_from_frontend"), 0x1000001a0U);
  EXPECT_EQ(zen4.at("de_no_dispatch_per_slot.backend_stalls"), 0x100001ea0U);
  EXPECT_EQ(zen4.at("de_no_dispatch_per_slot.smt_contention"), 0x1000060a0U);
  EXPECT_EQ(
      Configs(*Parse("topdown", ProcessorOf("AuthenticAMD", 0x1a, 0x02, false))).count("ls_not_halted_cyc.8_slots"),
      1u);
}

TEST(CounterNames, ElsewhereTopdownIsRefusedByName) {
  for (const Processor& processor : {ProcessorOf("AuthenticAMD", 0x19, 0x01, true), ProcessorOf("", 0, 0, false)}) {
    const auto list = Parse("topdown,cycles", processor);
    EXPECT_THAT(Names(*list), ElementsAre("cycles"));
    ASSERT_EQ(list->refused_count, 1u);
    EXPECT_STREQ(list->refused[0].name, "topdown");
    EXPECT_THAT(list->refused[0].reason, HasSubstr("Sandy Bridge, AMD's since Zen 4"));
    EXPECT_STREQ(list->complaint, "");
  }
  EXPECT_THAT(Parse("topdown", ProcessorOf("AuthenticAMD", 0x19, 0x01, true))->refused[0].reason,
              HasSubstr("AuthenticAMD family 25 model 1, Zen 3"));
}

TEST(CounterNames, FlopsByWidth) {
  const auto wide = Configs(*Parse("flops"));
  EXPECT_EQ(wide.size(), 5u);
  EXPECT_EQ(wide.at("FP_ARITH_INST_RETIRED.SCALAR"), 0x03c7U);
  EXPECT_EQ(wide.at("FP_ARITH_INST_RETIRED.8_FLOPS"), 0x60c7U);
  EXPECT_EQ(wide.at("FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE"), 0x80c7U);
  const auto narrow = Configs(*Parse("flops", ProcessorOf("GenuineIntel", 6, 0x9e, false)));
  EXPECT_EQ(narrow.size(), 4u);
  EXPECT_EQ(narrow.at("FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE"), 0x20c7U);
  EXPECT_EQ(Configs(*Parse("flops", ProcessorOf("AuthenticAMD", 0x17, 0x31, false))).at("fp_ret_sse_avx_ops.all"),
            0xff03U);
  EXPECT_EQ(Configs(*Parse("flops", ProcessorOf("AuthenticAMD", 0x19, 0x11, false))).at("fp_ret_sse_avx_ops.all"),
            0x1f03U);
  EXPECT_EQ(Configs(*Parse("flops", ProcessorOf("AuthenticAMD", 0x1a, 0x02, false))).at("fp_ret_sse_avx_ops.all"),
            0x0f03U);
  EXPECT_EQ(Parse("flops", ProcessorOf("GenuineIntel", 6, 0x3c, false))->refused_count,
            1u);  // Haswell has no such events
}

TEST(CounterNames, OfOtherProcessorsIsRefused) {
  const auto list = Parse("slots,fp_arith_inst_retired.scalar", ProcessorOf("AuthenticAMD", 0x19, 0x01, true));
  EXPECT_EQ(list->count, 0u);
  EXPECT_EQ(list->refused_count, 2u);
  EXPECT_STREQ(list->complaint, "");
}

TEST(CounterNames, Modifiers) {
  const auto list = Parse("cycles:u,instructions:k,page-faults:uk,r01c2:u");
  EXPECT_THAT(Names(*list), ElementsAre("cycles:u", "instructions:k", "page-faults", "r01c2:u"));
  EXPECT_TRUE(list->counters[0].exclude_kernel);
  EXPECT_FALSE(list->counters[0].exclude_user);
  EXPECT_TRUE(list->counters[1].exclude_user);
  EXPECT_FALSE(list->counters[2].exclude_user || list->counters[2].exclude_kernel);
  EXPECT_TRUE(list->counters[3].exclude_kernel);
  // getrusage's values can't be separated this way.
  EXPECT_FALSE(Parse("task-clock:u")->counters[0].sources & SourceBit(CounterSource::kRusage));
  EXPECT_THAT(Parse("voluntary-switches:u")->complaint, HasSubstr("its name alone"));
  EXPECT_THAT(Parse("cycles:x")->complaint, HasSubstr("u or k"));
}

TEST(CounterNames, RawEvents) {
  const auto list = Parse("r01c2,r0");
  EXPECT_EQ(list->counters[0].perf_type, uint32_t{PERF_TYPE_RAW});
  EXPECT_EQ(list->counters[0].perf_config, 0x01c2U);
  EXPECT_EQ(list->counters[1].perf_config, 0U);
  for (const char* word : {"r", "rxyz", "r0x3c", "r12345678901234567", "r-1", "r1g"}) {
    EXPECT_EQ(Parse(word)->count, 0u) << word;
    EXPECT_NE(Parse(word)->complaint[0], '\0') << word;
  }
}

TEST(CounterNames, EventsOfAPmuByItsFormats) {
  const auto list = Parse(
      "cpu/event=0x3c,umask=0x2,cmask=1/,cpu/topdown-retiring/u,cpu/event=0xb7,umask=1,offcore_rsp=0x3fbfc00001/"
      ",cycles");
  ASSERT_EQ(list->count, 4u) << list->complaint;
  EXPECT_STREQ(list->counters[0].name, "cpu/event=0x3c;umask=0x2;cmask=1/");  // names are separated by commas in traces
  EXPECT_EQ(list->counters[0].perf_type, 4u);
  EXPECT_EQ(list->counters[0].perf_config, 0x0100023cU);
  EXPECT_EQ(list->counters[1].perf_config, 0x8000U);
  EXPECT_TRUE(list->counters[1].exclude_kernel);
  EXPECT_EQ(list->counters[2].perf_config1, 0x3fbfc00001U);
  EXPECT_EQ(Parse("amd/event=0x1a0/")->counters[0].perf_config, 0x1000000a0U);
  EXPECT_STREQ(Parse("cpu/event=0x3c,name=core_cycles/")->counters[0].name, "core_cycles");
  EXPECT_EQ(Parse("cpu/config=0x123/")->counters[0].perf_config, 0x123U);
}

TEST(CounterNames, BadEventsOfAPmu) {
  for (const char* word :
       {"cpu/event=0x1ff/", "cpu/umask=/", "cpu/nothing=1/", "cpu/event=0x3c", "bad/event=1/", "bad/loop/",
        "../cpu/event=1/", "cpu/../type/", "cpu/event=0x3c/x", "/event=1/", "cpu/event=0x3c,name=a;b/"}) {
    const auto list = Parse(word);
    EXPECT_EQ(list->count, 0u) << word;
    EXPECT_NE(list->complaint[0], '\0') << word;
  }
  const auto absent = Parse("uncore_imc/event=4/");
  EXPECT_STREQ(absent->complaint, "");
  EXPECT_THAT(absent->refused[0].reason, HasSubstr("no such PMU"));
  CounterList list;
  ParseCounters("cpu/event=1/", IceLake(), nullptr, &list);
  EXPECT_EQ(list.refused_count, 1u);
}

TEST(CounterNames, PapisNamesAreLeftToPapi) {
  const auto list = Parse("PAPI_TOT_INS,papi::perf::PAGE-FAULTS,papi::rapl:::PACKAGE_ENERGY:PACKAGE0");
  EXPECT_THAT(Names(*list),
              ElementsAre("PAPI_TOT_INS", "papi::perf::PAGE-FAULTS", "papi::rapl:::PACKAGE_ENERGY:PACKAGE0"));
  for (size_t i = 0; i < list->count; ++i) {
    EXPECT_EQ(list->counters[i].sources, SourceBit(CounterSource::kPapi) | SourceBit(CounterSource::kReplay));
    EXPECT_EQ(list->counters[i].perf_type, kNoPerfType);
  }
}

TEST(CounterNames, WhatIsNotUnderstoodIsSaidAndTheRestKept) {
  const auto list = Parse("cycels,instructions,nonsense");
  EXPECT_THAT(Names(*list), ElementsAre("instructions"));
  EXPECT_THAT(list->complaint,
              testing::StartsWith("cycels is not understood, expected software, basic, cache, flops, topdown"));
  // Names that differ only beyond the maximum length must not become one.
  const std::string most(71, 'x');
  EXPECT_EQ(Parse(("papi::" + most + "1").c_str())->count, 0u);
  EXPECT_NE(Parse(std::string(500, 'a').c_str())->complaint[0], '\0');
}

TEST(CounterNames, ManyWordsEndAtTheLimit) {
  std::string words;
  for (int i = 0; i < 100; ++i) words += "r" + std::to_string(1000 + i) + ",";
  const auto list = Parse(words.c_str());
  EXPECT_EQ(list->count, kMaxCounters);
  EXPECT_THAT(list->complaint, HasSubstr("at most 48 counters"));
}

// Every listed name is recognised on some processor, has a meaning, and can be in a trace.
TEST(CounterNames, WhatIsListedIsUnderstood) {
  for (const CounterLine& known : CounterLines()) {
    EXPECT_EQ(strchr(known.name, ','), nullptr) << known.name;
    EXPECT_LT(strlen(known.name), sizeof(CounterSpec::name));
    const auto list = Parse(known.name);
    EXPECT_EQ(list->complaint[0], '\0') << known.name;
    EXPECT_EQ(list->count + list->refused_count, 1u) << known.name;
    EXPECT_NE(FindCounterLine(known.name), nullptr);
  }
  EXPECT_NE(FindCounterLine("cycles:u"), nullptr);
  EXPECT_EQ(FindCounterLine("PAPI_TOT_INS"), nullptr);
}

}  // namespace counter_names_test
}  // namespace dlhook
