// The formulas. To add one, add a line to the table.
#include "analyzer/time/derived_metrics.h"

namespace dlhook::analyzer::inline time {
namespace {

constexpr char kTmaEvents[] =
    "Yasin, A Top-Down Method for Performance Analysis and Counters Architecture, ISPASS 2014, table 1; Intel's TMA "
    "metrics (github.com/intel/perfmon, TMA_Metrics-full.csv), 4 slots a cycle";
constexpr char kTmaSmt[] =
    "Intel's TMA metrics with two threads a core: CORE_CLKS = CLKS / 2 * (1 + ONE_THREAD_ACTIVE / REF_XCLK), "
    "Recovery_Cycles = RECOVERY_CYCLES_ANY / 2";
constexpr char kTmaMetrics[] =
    "Linux, tools/perf/Documentation/topdown.txt and perf stat: each of the processor's four metrics over their sum "
    "(Intel since Ice Lake)";
constexpr char kAmd[] =
    "AMD's pipeline utilization: Linux, tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json (6 slots a cycle), "
    "amdzen5 (8)";
constexpr char kIntelFlops[] = "Intel's TMA metrics, FLOP_Count; an FMA counts twice in these events";

constexpr char kRetiring[] = "share of pipeline slots whose work retired; what is not lost";
constexpr char kBadSpeculation[] = "share of pipeline slots lost to work that was thrown away and to recovery from it";
constexpr char kFrontend[] = "share of pipeline slots lost as no instructions came (instruction cache, decoding)";
constexpr char kBackend[] =
    "share of pipeline slots lost as nothing could take the instructions: data not there yet, or execution units busy";
constexpr char kSmtContention[] = "share of pipeline slots that went to the core's other thread";
constexpr char kFlopsText[] = "floating-point operations done, as the processor counted them";

constexpr double kPercent = 100;
constexpr double kPerKilo = 1000;
constexpr double kNsPerSecond = 1e9;
constexpr double kLine = 64;  // bytes of a cache line
constexpr double kIntelWidth = 4;

double Ratio(const double* a) { return a[0] / a[1]; }
double RatioInPercent(const double* a) { return kPercent * a[0] / a[1]; }
double OfThousand(const double* a) { return kPerKilo * a[0] / a[1]; }
double OfFour(const double* a) { return kPercent * a[0] / (a[0] + a[1] + a[2] + a[3]); }
double PerSecond(const double* a) { return kNsPerSecond * a[0] / a[1]; }
double BothPerSecond(const double* a) { return kNsPerSecond * (a[0] + a[2]) / a[1]; }
double LinesPerNs(const double* a) { return kLine * a[0] / a[1]; }  // GB/s

// Slots with two threads per core: cycles, ONE_THREAD_ACTIVE, REF_XCLK.
double SmtSlots(const double* a) { return kIntelWidth * (a[0] / 2) * (1 + a[1] / a[2]); }

double WideFlops(const double* a) { return a[0] + 2 * a[1] + 4 * a[2] + 8 * a[3] + 16 * a[4]; }
double NarrowFlops(const double* a) { return a[0] + 2 * a[1] + 4 * a[2] + 8 * a[3]; }
double OldFlops(const double* a) { return a[0] + a[1] + 2 * a[2] + 4 * (a[3] + a[4]) + 8 * a[5]; }

template <double (*kFlops)(const double*), size_t kWall>
double FlopsPerNs(const double* a) {
  return kFlops(a) / a[kWall];
}
template <double (*kFlops)(const double*)>
double VectorPart(const double* a) {
  return kPercent * (1 - a[0] / kFlops(a));
}

using Metrics = std::vector<DerivedMetric>;
using Needs = std::vector<absl::string_view>;

// Events that count floating-point operations: with AVX-512, with AVX, before Haswell, on AMD.
Needs Wide() {
  return {"FP_ARITH_INST_RETIRED.SCALAR", "FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", "FP_ARITH_INST_RETIRED.4_FLOPS",
          "FP_ARITH_INST_RETIRED.8_FLOPS", "FP_ARITH_INST_RETIRED.512B_PACKED_SINGLE"};
}
Needs Narrow() {
  return {"FP_ARITH_INST_RETIRED.SCALAR", "FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", "FP_ARITH_INST_RETIRED.4_FLOPS",
          "FP_ARITH_INST_RETIRED.256B_PACKED_SINGLE"};
}
Needs Old() {
  return {"FP_COMP_OPS_EXE.SSE_SCALAR_SINGLE", "FP_COMP_OPS_EXE.SSE_SCALAR_DOUBLE", "FP_COMP_OPS_EXE.SSE_PACKED_DOUBLE",
          "FP_COMP_OPS_EXE.SSE_PACKED_SINGLE", "SIMD_FP_256.PACKED_DOUBLE",         "SIMD_FP_256.PACKED_SINGLE"};
}
Needs Counted() { return {"fp_ret_sse_avx_ops.all|PAPI_FP_OPS"}; }

Needs With(Needs needs, absl::string_view more) {
  needs.push_back(more);
  return needs;
}

void AddRates(Metrics* metrics) {
  const auto add = [&](absl::string_view name, absl::string_view unit, Better better, Needs needs,
                       double (*compute)(const double*), absl::string_view explanation) {
    metrics->push_back({name, unit, better, std::move(needs), compute, explanation, ""});
  };
  static constexpr char kCycles[] =
      "cycles|CPU_CLK_UNHALTED.THREAD|ls_not_halted_cyc.6_slots|ls_not_halted_cyc.8_slots|PAPI_TOT_CYC";
  static constexpr char kInstructions[] = "instructions|PAPI_TOT_INS";
  add("cpus_used", "", Better::kNeither, {"task-clock", kWallShare}, Ratio,
      "CPU time over wall time: processors busy on average");
  add("ghz", "GHz", Better::kHigher, {kCycles, "task-clock"}, Ratio, "cycles over CPU time");
  add("ipc", "", Better::kHigher, {kInstructions, kCycles}, Ratio, "instructions retired per cycle");
  add("branch_miss_rate", "%", Better::kLower, {"branch-misses|PAPI_BR_MSP", "branches|PAPI_BR_INS"}, RatioInPercent,
      "branches predicted wrongly, of all");
  add("branch_mpki", "", Better::kLower, {"branch-misses|PAPI_BR_MSP", kInstructions}, OfThousand,
      "branches predicted wrongly, per 1000 instructions");
  add("l1d_mpki", "", Better::kLower, {"L1-dcache-load-misses|PAPI_L1_DCM", kInstructions}, OfThousand,
      "loads that missed the L1 data cache, per 1000 instructions");
  add("l1d_miss_rate", "%", Better::kLower, {"L1-dcache-load-misses", "L1-dcache-loads"}, RatioInPercent,
      "loads that missed the L1 data cache, of all");
  add("llc_mpki", "", Better::kLower, {"LLC-load-misses|PAPI_L3_TCM", kInstructions}, OfThousand,
      "loads that missed the last level of cache, per 1000 instructions");
  add("cache_mpki", "", Better::kLower, {"cache-misses", kInstructions}, OfThousand,
      "misses of the last level of cache (Intel) or of L2 (AMD), per 1000 instructions");
  add("dtlb_mpki", "", Better::kLower, {"dTLB-load-misses|PAPI_TLB_DM", kInstructions}, OfThousand,
      "loads that missed the data TLB, per 1000 instructions");
  add("page_faults_per_s", "1/s", Better::kLower, {"page-faults", kWallShare}, PerSecond,
      "page faults per second of wall time");
  add("page_faults_per_s", "1/s", Better::kLower, {"minor-faults", kWallShare, "major-faults"}, BothPerSecond,
      "page faults per second of wall time");
  add("switches_per_s", "1/s", Better::kLower, {"context-switches", kWallShare}, PerSecond,
      "context switches per second of wall time");
  add("switches_per_s", "1/s", Better::kLower, {"voluntary-switches", kWallShare, "involuntary-switches"},
      BothPerSecond, "context switches per second of wall time");
  add("stalled_frontend", "%", Better::kLower, {"stalled-cycles-frontend", kCycles}, RatioInPercent,
      "cycles without instructions to issue");
  add("stalled_backend", "%", Better::kLower, {"stalled-cycles-backend", kCycles}, RatioInPercent,
      "cycles without room to issue into");
}

void AddWork(Metrics* metrics) {
  const auto add = [&](absl::string_view name, absl::string_view unit, Needs needs, double (*compute)(const double*),
                       absl::string_view explanation, absl::string_view source) {
    metrics->push_back({name, unit, name == "counted_flops" ? Better::kNeither : Better::kHigher, std::move(needs),
                        compute, explanation, source});
  };
  const auto first = [](const double* a) { return a[0]; };
  add("counted_flops", "flops", Wide(), WideFlops, kFlopsText, kIntelFlops);
  add("counted_flops", "flops", Narrow(), NarrowFlops, kFlopsText, kIntelFlops);
  add("counted_flops", "flops", Old(), OldFlops, kFlopsText, kIntelFlops);
  add("counted_flops", "flops", Counted(), first, kFlopsText, "AMD counts operations, a multiply-add as two");
  static constexpr char kRate[] = "counted floating-point operations per ns of wall time";
  add("counted_gflops", "GFLOP/s", With(Wide(), kWallShare), FlopsPerNs<WideFlops, 5>, kRate, kIntelFlops);
  add("counted_gflops", "GFLOP/s", With(Narrow(), kWallShare), FlopsPerNs<NarrowFlops, 4>, kRate, kIntelFlops);
  add("counted_gflops", "GFLOP/s", With(Old(), kWallShare), FlopsPerNs<OldFlops, 6>, kRate, kIntelFlops);
  add("counted_gflops", "GFLOP/s", With(Counted(), kWallShare), Ratio, kRate, "");
  static constexpr char kVector[] = "of the counted floating-point operations, those of vectors";
  add("vector_flops", "%", Wide(), VectorPart<WideFlops>, kVector, kIntelFlops);
  add("vector_flops", "%", Narrow(), VectorPart<NarrowFlops>, kVector, kIntelFlops);
  add("memory_bandwidth", "GB/s", {"ls_any_fills_from_sys.dram_io_all", kWallShare}, LinesPerNs,
      "cache lines that L1 was filled with from memory, 64 bytes each, over wall time; write-backs and what L2 fetched "
      "ahead are not in it",
      "");
  add("memory_bandwidth", "GB/s", {"LLC-load-misses|PAPI_L3_TCM", kWallShare}, LinesPerNs,
      "loads that missed the last level of cache, 64 bytes each, over wall time: a lower bound, without prefetches and "
      "write-backs",
      "");
}

void AddShare(Metrics* metrics, absl::string_view name, Needs needs, double (*compute)(const double*),
              absl::string_view source) {
  const bool is_good = name == "retiring";
  const absl::string_view text = is_good                     ? kRetiring
                                 : name == "bad_speculation" ? kBadSpeculation
                                 : name == "frontend_bound"  ? kFrontend
                                 : name == "backend_bound"   ? kBackend
                                                             : kSmtContention;
  metrics->push_back({name, "%", is_good ? Better::kHigher : Better::kLower, std::move(needs), compute, text, source});
}

void AddTopdownByMetrics(Metrics* metrics) {
  static constexpr char kR[] = "topdown-retiring", kS[] = "topdown-bad-spec", kF[] = "topdown-fe-bound",
                        kB[] = "topdown-be-bound";
  AddShare(metrics, "retiring", {kR, kS, kF, kB}, OfFour, kTmaMetrics);
  AddShare(metrics, "bad_speculation", {kS, kR, kF, kB}, OfFour, kTmaMetrics);
  AddShare(metrics, "frontend_bound", {kF, kR, kS, kB}, OfFour, kTmaMetrics);
  AddShare(metrics, "backend_bound", {kB, kR, kS, kF}, OfFour, kTmaMetrics);
}

// a: CPU_CLK_UNHALTED.THREAD, ONE_THREAD_ACTIVE, REF_XCLK, then those of the formula. These precede the formulas for
// one thread per core, whose events such a run has, too.
void AddTopdownBySmtEvents(Metrics* metrics) {
  const auto add = [&](absl::string_view name, Needs events, double (*compute)(const double*)) {
    Needs needs = {"CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", "CPU_CLK_UNHALTED.REF_XCLK"};
    needs.insert(needs.end(), events.begin(), events.end());
    AddShare(metrics, name, std::move(needs), compute, kTmaSmt);
  };
  const auto of_slots = [](const double* a) { return kPercent * a[3] / SmtSlots(a); };
  add("retiring", {"UOPS_RETIRED.RETIRE_SLOTS"}, of_slots);
  add("bad_speculation", {"UOPS_ISSUED.ANY", "UOPS_RETIRED.RETIRE_SLOTS", "INT_MISC.RECOVERY_CYCLES_ANY"},
      [](const double* a) { return kPercent * (a[3] - a[4] + kIntelWidth * a[5] / 2) / SmtSlots(a); });
  add("frontend_bound", {"IDQ_UOPS_NOT_DELIVERED.CORE"}, of_slots);
  add("backend_bound", {"IDQ_UOPS_NOT_DELIVERED.CORE", "UOPS_ISSUED.ANY", "INT_MISC.RECOVERY_CYCLES_ANY"},
      [](const double* a) { return kPercent * (1 - (a[3] + a[4] + kIntelWidth * a[5] / 2) / SmtSlots(a)); });
}

void AddTopdownByEvents(Metrics* metrics) {
  static constexpr char kClock[] = "CPU_CLK_UNHALTED.THREAD", kIssued[] = "UOPS_ISSUED.ANY",
                        kRetired[] = "UOPS_RETIRED.RETIRE_SLOTS";
  static constexpr char kEmpty[] = "IDQ_UOPS_NOT_DELIVERED.CORE", kRecovery[] = "INT_MISC.RECOVERY_CYCLES";
  const auto of_slots = [](const double* a) { return kPercent * a[0] / (kIntelWidth * a[1]); };
  AddShare(metrics, "retiring", {kRetired, kClock}, of_slots, kTmaEvents);
  AddShare(
      metrics, "bad_speculation", {kIssued, kRetired, kRecovery, kClock},
      [](const double* a) { return kPercent * (a[0] - a[1] + kIntelWidth * a[2]) / (kIntelWidth * a[3]); }, kTmaEvents);
  AddShare(metrics, "frontend_bound", {kEmpty, kClock}, of_slots, kTmaEvents);
  AddShare(
      metrics, "backend_bound", {kEmpty, kIssued, kRecovery, kClock},
      [](const double* a) { return kPercent * (1 - (a[0] + a[1] + kIntelWidth * a[2]) / (kIntelWidth * a[3])); },
      kTmaEvents);
}

template <int kWidth>
void AddAmd(Metrics* metrics, absl::string_view cycles) {
  const auto of_slots = [](const double* a) { return kPercent * a[0] / (kWidth * a[1]); };
  AddShare(metrics, "retiring", {"ex_ret_ops", cycles}, of_slots, kAmd);
  AddShare(
      metrics, "bad_speculation", {"de_src_op_disp.all", "ex_ret_ops", cycles},
      [](const double* a) { return kPercent * (a[0] - a[1]) / (kWidth * a[2]); }, kAmd);
  AddShare(metrics, "frontend_bound", {"de_no_dispatch_per_slot.no_ops_from_frontend", cycles}, of_slots, kAmd);
  AddShare(metrics, "backend_bound", {"de_no_dispatch_per_slot.backend_stalls", cycles}, of_slots, kAmd);
  AddShare(metrics, "smt_contention", {"de_no_dispatch_per_slot.smt_contention", cycles}, of_slots, kAmd);
}

std::optional<double> FirstAmount(absl::string_view names, AmountOf amount_of) {
  for (const absl::string_view name : absl::StrSplit(names, '|')) {
    if (const std::optional<double> amount = amount_of(name)) return amount;
    if (name == kWallShare) continue;
    if (const std::optional<double> amount = amount_of(absl::StrCat(name, ":u"))) return amount;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> DerivedMetric::Of(AmountOf amount_of) const {
  std::vector<double> amounts;
  for (const absl::string_view names : needs) {
    const std::optional<double> amount = FirstAmount(names, amount_of);
    if (!amount.has_value()) return std::nullopt;
    amounts.push_back(*amount);
  }
  const double value = compute(amounts.data());
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

bool DerivedMetric::HasInputs(AmountOf amount_of) const {
  return absl::c_all_of(needs, [&](absl::string_view names) { return FirstAmount(names, amount_of).has_value(); });
}

const std::vector<DerivedMetric>& DerivedMetrics() {
  static const auto* const kMetrics = [] {
    auto* metrics = new Metrics;
    AddRates(metrics);
    AddWork(metrics);
    AddTopdownByMetrics(metrics);
    AddTopdownBySmtEvents(metrics);
    AddTopdownByEvents(metrics);
    AddAmd<6>(metrics, "ls_not_halted_cyc.6_slots");
    AddAmd<8>(metrics, "ls_not_halted_cyc.8_slots");
    return metrics;
  }();
  return *kMetrics;
}

}  // namespace dlhook::analyzer::time
