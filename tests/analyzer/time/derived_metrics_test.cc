// Formulas against published measurements: counts that someone published together with a tool's results. Each test
// names its source.
#include "analyzer/time/derived_metrics.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "preload/counters/counter_names.h"

namespace dlhook::analyzer {
namespace {

using Counts = std::map<std::string, double>;

// The first metric with this name that has a value, as in a table; nullopt: none.
std::optional<double> Metric(absl::string_view name, const Counts& counts) {
  for (const DerivedMetric& metric : DerivedMetrics()) {
    if (metric.name != name) continue;
    const std::optional<double> value = metric.Of([&](absl::string_view counter) -> std::optional<double> {
      const auto found = counts.find(std::string(counter));
      return found == counts.end() ? std::nullopt : std::optional<double>(found->second);
    });
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

// As printed with a given number of decimals.
void ExpectPrinted(absl::string_view name, const Counts& counts, double printed, double half_digit) {
  const std::optional<double> value = Metric(name, counts);
  ASSERT_TRUE(value.has_value()) << name;
  EXPECT_NEAR(*value, printed, half_digit + 1e-9) << name;
}

// Ice Lake: Kan Liang, "perf stat: Add Topdown metrics events as default events", linux-kernel list, 21 January 2021,
// <20210121133752.118327-1-kan.liang@linux.intel.com>: `perf stat sleep 1`.
TEST(Topdown, ByMetricsAsPerfStatPrintsThem) {
  const Counts counts = {{"slots", 1585555},           {"topdown-retiring", 238941}, {"topdown-bad-spec", 410378},
                         {"topdown-fe-bound", 634222}, {"topdown-be-bound", 304675}, {"cycles", 319941},
                         {"instructions", 242802},     {"branches", 54380},          {"branch-misses", 4043}};
  ExpectPrinted("retiring", counts, 15.0, 0.05);
  ExpectPrinted("bad_speculation", counts, 25.8, 0.05);
  ExpectPrinted("frontend_bound", counts, 39.9, 0.05);
  ExpectPrinted("backend_bound", counts, 19.2, 0.05);
  ExpectPrinted("ipc", counts, 0.76, 0.005);
  ExpectPrinted("branch_miss_rate", counts, 7.43, 0.005);
}

// Sapphire Rapids: Kan Liang's patch for level 2, linux-kernel list, 8 July 2021: `perf stat sleep 1`.
TEST(Topdown, ByMetricsOfSapphireRapids) {
  const Counts counts = {{"slots", 8431908},
                         {"topdown-retiring", 1554116},
                         {"topdown-bad-spec", 1289585},
                         {"topdown-fe-bound", 2810636},
                         {"topdown-be-bound", 2810636},
                         {"task-clock", 0.59e6},
                         {"cycles", 1405318},
                         {"instructions", 1471136}};
  ExpectPrinted("retiring", counts, 18.4, 0.05);
  ExpectPrinted("bad_speculation", counts, 15.2, 0.05);
  ExpectPrinted("frontend_bound", counts, 33.2, 0.05);
  ExpectPrinted("backend_bound", counts, 33.2, 0.05);
  ExpectPrinted("ipc", counts, 1.05, 0.005);
  ExpectPrinted("ghz", counts, 2.371, 0.02);  // the task clock has only two digits
}

// The processor's metrics are rounded to 1/255 and need not add up to the slots: shares are relative to their sum.
TEST(Topdown, SharesOfMetricsAddUp) {
  const Counts counts = {{"slots", 1718355823412.0},
                         {"topdown-retiring", 333238633815.0},
                         {"topdown-bad-spec", 1027585489317.0},
                         {"topdown-fe-bound", 11428105361.0},
                         {"topdown-be-bound", 538164217329.0}};
  double sum = 0;
  for (const char* name : {"retiring", "bad_speculation", "frontend_bound", "backend_bound"})
    sum += Metric(name, counts).value();
  EXPECT_NEAR(sum, 100, 1e-9);
}

// Skylake: Andi Kleen, in "Re: [PATCH v3 00/23] Improvements to Intel perf metrics", linux-kernel list, 4 October 2022,
// <CAP-5=fUFuw-WYj7xVm3WrnggN2NW7pJkznUQ-j3U4fwMB5PdnA@mail.gmail.com>: `perf stat -M TopdownL1 BC1s`. Two groups were
// multiplexed: the last two numbers have recovery, cycles and issued micro-operations of their own.
TEST(Topdown, ByEventsOfSkylake) {
  const Counts first = {{"INT_MISC.RECOVERY_CYCLES", 608066701.0},
                        {"CPU_CLK_UNHALTED.THREAD", 5364230382.0},
                        {"UOPS_RETIRED.RETIRE_SLOTS", 10194062626.0},
                        {"UOPS_ISSUED.ANY", 14613100390.0}};
  ExpectPrinted("bad_speculation", first, 32, 0.5);
  ExpectPrinted("retiring", first, 48, 0.5);
  const Counts second = {{"IDQ_UOPS_NOT_DELIVERED.CORE", 2928793077.0},
                         {"INT_MISC.RECOVERY_CYCLES", 604850703.0},
                         {"CPU_CLK_UNHALTED.THREAD", 5357291185.0},
                         {"UOPS_ISSUED.ANY", 14618285580.0}};
  ExpectPrinted("frontend_bound", second, 14, 0.5);
  ExpectPrinted("backend_bound", second, 7, 0.5);
}

// Cascade Lake with two threads a core: Kan Liang, in "Re: [PATCH v3 03/46] perf stat: Introduce skippable evsels",
// linux-kernel list, 1 May 2023, <d6784858-2a5f-7920-f1ac-d7ec9ed89605@linux.intel.com>: `perf stat perf bench internals synthesize`.
TEST(Topdown, ByEventsOfTwoThreadsACore) {
  const Counts first = {
      {"CPU_CLK_UNHALTED.REF_XCLK", 49576109.0},          {"INT_MISC.RECOVERY_CYCLES_ANY", 228406003.0},
      {"CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", 49591815.0}, {"CPU_CLK_UNHALTED.THREAD", 9553472893.0},
      {"UOPS_RETIRED.RETIRE_SLOTS", 22893372651.0},       {"UOPS_ISSUED.ANY", 24180375299.0}};
  ExpectPrinted("retiring", first, 59.9, 0.05);
  ExpectPrinted("bad_speculation", first, 4.6, 0.05);
  const Counts second = {
      {"CPU_CLK_UNHALTED.REF_XCLK", 49562300.0},          {"INT_MISC.RECOVERY_CYCLES_ANY", 228798426.0},
      {"CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", 49559962.0}, {"CPU_CLK_UNHALTED.THREAD", 9538354333.0},
      {"IDQ_UOPS_NOT_DELIVERED.CORE", 10735205084.0},     {"UOPS_ISSUED.ANY", 24207967071.0}};
  ExpectPrinted("frontend_bound", second, 28.1, 0.05);
  ExpectPrinted("backend_bound", second, 7.2, 0.05);
}

// The other thread runs half of the time: a thread has 4 slots of 3/4 of its cycles.
TEST(Topdown, TheOtherThreadTakesSlots) {
  const Counts counts = {{"CPU_CLK_UNHALTED.THREAD", 1000},
                         {"CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", 50},
                         {"CPU_CLK_UNHALTED.REF_XCLK", 100},
                         {"UOPS_RETIRED.RETIRE_SLOTS", 1500}};
  EXPECT_NEAR(Metric("retiring", counts).value(), 50, 1e-9);
}

// Zen 4 (8 cores of 5.57 GHz): notes on the course perf-ninja, "Vectorization 1", `perf stat -M PipelineL2`, November
// 2024. Printed there in parts: frontend_bound = 1.6 + 0.7, backend_bound = 39.0 + 0.9, retiring = 57.3 + 0.0,
// bad_speculation = 0.4 + 0.0.
TEST(Topdown, OfZen4) {
  ExpectPrinted("bad_speculation",
                {{"de_src_op_disp.all", 15093559812.0},
                 {"ls_not_halted_cyc.6_slots", 4366254752.0},
                 {"ex_ret_ops", 15001234541.0}},
                0.4, 0.05);
  ExpectPrinted(
      "backend_bound",
      {{"de_no_dispatch_per_slot.backend_stalls", 10474861146.0}, {"ls_not_halted_cyc.6_slots", 4370599879.0}}, 39.9,
      0.1);
  ExpectPrinted("retiring", {{"ls_not_halted_cyc.6_slots", 4372398990.0}, {"ex_ret_ops", 15041870347.0}}, 57.3, 0.1);
  ExpectPrinted(
      "frontend_bound",
      {{"de_no_dispatch_per_slot.no_ops_from_frontend", 607301545.0}, {"ls_not_halted_cyc.6_slots", 4373285636.0}}, 2.3,
      0.1);
}

// amdzen5/pipeline.json: 8 slots per cycle.
TEST(Topdown, OfZen5) {
  EXPECT_NEAR(Metric("retiring", {{"ls_not_halted_cyc.8_slots", 1000}, {"ex_ret_ops", 4000}}).value(), 50, 1e-9);
  EXPECT_NEAR(
      Metric("smt_contention", {{"ls_not_halted_cyc.8_slots", 1000}, {"de_no_dispatch_per_slot.smt_contention", 2000}})
          .value(),
      25, 1e-9);
}

// 1000 of each: 1 + 2 + 4 + 8 + 16 operations per instruction. By hand: a loop of n AVX-512 FMAs on single precision
// counts 2 n such instructions, 32 n operations (Intel's description of the event: an FMA counts twice).
TEST(Flops, ByWidth) {
  const Counts wide = {{"FP_ARITH_INST_RETIRED.SCALAR", 1000},
                       {"FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", 1000},
                       {"FP_ARITH_INST_RETIRED.4_FLOPS", 1000},
                       {"FP_ARITH_INST_RETIRED.8_FLOPS", 1000},
                       {"FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE", 1000},
                       {"wall-share", 1000}};
  EXPECT_EQ(Metric("counted_flops", wide), 31000);
  EXPECT_EQ(Metric("counted_gflops", wide), 31);
  EXPECT_NEAR(Metric("vector_flops", wide).value(), 100.0 * 30 / 31, 1e-9);
  const Counts narrow = {{"FP_ARITH_INST_RETIRED.SCALAR", 1000},
                         {"FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", 1000},
                         {"FP_ARITH_INST_RETIRED.4_FLOPS", 1000},
                         {"FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE", 1000}};
  EXPECT_EQ(Metric("counted_flops", narrow), 15000);
  const Counts old = {{"FP_COMP_OPS_EXE.SSE_SCALAR_SINGLE", 1},   {"FP_COMP_OPS_EXE.SSE_SCALAR_DOUBLE", 10},
                      {"FP_COMP_OPS_EXE.SSE_PACKED_DOUBLE", 100}, {"FP_COMP_OPS_EXE.SSE_PACKED_SINGLE", 1000},
                      {"SIMD_FP_256.PACKED_DOUBLE", 10000},       {"SIMD_FP_256.PACKED_SINGLE", 100000}};
  EXPECT_EQ(Metric("counted_flops", old), 1 + 10 + 200 + 4000 + 40000 + 800000);
  EXPECT_EQ(Metric("counted_flops", {{"fp_ret_sse_avx_ops.all", 123}}), 123);
}

// A winograd convolution on Ice Lake-SP (perf stat -d, VGG16): 10.41 % of L1 loads miss; LLC misses of 61.86 % of its
// loads.
TEST(Rates, OfCaches) {
  const Counts counts = {{"L1-dcache-loads", 193141026290.0},
                         {"L1-dcache-load-misses", 20111620627.0},
                         {"instructions", 641830635865.0},
                         {"LLC-load-misses", 140093648.0},
                         {"branches", 92458329196.0},
                         {"branch-misses", 167102534.0},
                         {"wall-share", 2e9}};
  ExpectPrinted("l1d_miss_rate", counts, 10.41, 0.005);
  ExpectPrinted("branch_miss_rate", counts, 0.18, 0.005);
  EXPECT_NEAR(Metric("llc_mpki", counts).value(), 140093648.0 / 641830635.865, 1e-9);
  EXPECT_NEAR(Metric("memory_bandwidth", counts).value(), 140093648.0 * 64 / 2e9, 1e-9);
}

TEST(Rates, OfTheKernelsCounters) {
  const Counts counts = {{"task-clock", 3e9},  {"wall-share", 2e9},       {"minor-faults", 90},
                         {"major-faults", 10}, {"voluntary-switches", 6}, {"involuntary-switches", 2}};
  EXPECT_EQ(Metric("cpus_used", counts), 1.5);
  EXPECT_EQ(Metric("page_faults_per_s", counts), 50);
  EXPECT_EQ(Metric("switches_per_s", counts), 4);
  EXPECT_EQ(Metric("page_faults_per_s", {{"page-faults", 30}, {"wall-share", 1e9}}), 30);
}

TEST(Metrics, WhatIsNotKnownIsNotZero) {
  EXPECT_EQ(Metric("ipc", {{"instructions", 5}}), std::nullopt);
  EXPECT_EQ(Metric("ipc", {{"instructions", 5}, {"cycles", 0}}), std::nullopt);
  EXPECT_EQ(Metric("ipc", {{"instructions", 0}, {"cycles", 10}}), 0);
  EXPECT_EQ(
      Metric("retiring",
             {{"topdown-retiring", 0}, {"topdown-bad-spec", 0}, {"topdown-fe-bound", 0}, {"topdown-be-bound", 0}}),
      std::nullopt);
  EXPECT_EQ(Metric("ipc", {{"instructions:u", 20}, {"cycles:u", 10}}), 2);
  EXPECT_EQ(Metric("ipc", {{"PAPI_TOT_INS", 20}, {"PAPI_TOT_CYC", 10}}), 2);
}

// With a misspelt counter a metric would never have a value.
TEST(Metrics, NeedWhatCanBeCounted) {
  for (const DerivedMetric& metric : DerivedMetrics()) {
    for (const absl::string_view names : metric.needs) {
      for (const absl::string_view name : absl::StrSplit(names, '|')) {
        EXPECT_TRUE(name == kWallShare || absl::StartsWith(name, "PAPI_") ||
                    FindCounterLine(std::string(name).c_str()) != nullptr)
            << name;
      }
    }
    EXPECT_FALSE(metric.explanation.empty()) << metric.name;
  }
}

// A set's counters on a processor suffice for the metrics that the set is for.
TEST(Metrics, SetsGiveTheirMetrics) {
  const struct {
    const char* vendor;
    uint32_t family, model;
    bool has_smt;
  } kProcessors[] = {
      {"GenuineIntel", 6, 0x2a, false}, {"GenuineIntel", 6, 0x3f, true},    {"GenuineIntel", 6, 0x9e, false},
      {"GenuineIntel", 6, 0x55, true},  {"GenuineIntel", 6, 0x6a, true},    {"GenuineIntel", 6, 0x8f, true},
      {"GenuineIntel", 6, 0xb7, true},  {"AuthenticAMD", 0x19, 0x11, true}, {"AuthenticAMD", 0x1a, 2, false}};
  for (const auto& one : kProcessors) {
    CounterList list;
    ParseCounters("topdown,flops,basic,cache", ProcessorOf(one.vendor, one.family, one.model, one.has_smt), nullptr,
                  &list);
    Counts counts = {{"wall-share", 1e9}};
    for (size_t i = 0; i < list.count; ++i) counts[list.counters[i].name] = 1e6;
    for (const char* name :
         {"retiring", "bad_speculation", "frontend_bound", "backend_bound", "ipc", "branch_mpki", "l1d_mpki"}) {
      EXPECT_TRUE(Metric(name, counts).has_value()) << name << " on model " << one.model;
    }
    const bool is_haswell = one.model == 0x3f;
    EXPECT_EQ(Metric("counted_flops", counts).has_value(), !is_haswell) << one.model;
    EXPECT_TRUE(Metric("memory_bandwidth", counts).has_value()) << one.model;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
