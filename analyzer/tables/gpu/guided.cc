// Table `guided`: the metrics of the guided analysis of NVIDIA's retired Visual Profiler, with definitions.
//
// The names are NVIDIA's ("CUDA Profiler User's Guide" 9.0). Their definitions are inferred from published output of
// the tool:
//   Low Compute/Memcpy Efficiency [28.27 ms/34.35 ms = 0.823], Low Memcpy/Compute Overlap [293.9 us/28.27 ms = 1 %],
//   Low Memcpy Throughput [205 MB/s avg, for memcpys accounting for 5.5 % of all memcpy time], Low Memcpy Overlap [22.3
//   us/8.643 ms = 0.3 %], Low Compute Utilization [28.27 ms/2.879 s = 1 %]; of another program: Low Memcpy/Compute
//   Overlap [0 ns/791.2 ms], Low Kernel Concurrency [0 ns/512.4 s].
// So overlap is relative to the smaller side (compute in the first, copies in the second). No thresholds are published:
// those here are dlhook's own, and each row states its source.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr double kLowPercent = 50;        // of what is possible
constexpr double kNegligiblePercent = 1;  // of the steps' time: metrics with less at stake get no verdict
constexpr size_t kRankedKernels = 5;
constexpr char kLow[] = "low";

constexpr char kMetrics[] =
    "As in the Visual Profiler's guided analysis. compute/memcpy efficiency: compute time over copy time. "
    "memcpy/compute overlap: time in which copies and kernels ran at once, as a part of the smaller of both. memcpy "
    "throughput: mean rate of the copies between host and device that reach less than half of their link's peak (of "
    "all, if none is so slow). memcpy overlap: time in which copies to and from the device ran at once, as a part of "
    "the smaller of both. compute utilization: compute time as a part of the steps' time. kernel concurrency: time in "
    "which two kernels ran at once, as a part of the compute time. kernel priority: kernels by their part of all "
    "kernels' time, the upper bound of what optimizing them gains (the Visual Profiler weighed it with the achieved "
    "occupancy, which takes hardware counters). Times are unions: each instant counts once. Kernels of collectives do "
    "not count as compute, nor memset as copies.";

// The row of a metric, without its verdict.
struct GuidedLine {
  std::string metric = {};
  Cell value = {};
  std::string unit = {};
  std::string verdict = {};
  std::string what = {};
  int64_t time_ns = 0;
  int64_t of_ns = 0;
  std::optional<int64_t> at_stake_ns = {};  // of all steps
  std::string threshold = {};
  std::string advice = {};
  DeviceLabel device = {};
  int64_t steps = 1;
};

TypedColumns<GuidedLine> GuidedColumns(bool has_processes) {
  const auto time = [](std::string name, std::string explanation) {
    return IntegerColumn(std::move(name), "ns", Better::kNeither, std::move(explanation));
  };
  TypedColumns<GuidedLine> columns = GpuLabelColumns(has_processes).Of(&GuidedLine::device);
  columns.Add({
      {As(Role::kKey, TextColumn("metric", kMetrics)), &GuidedLine::metric},
      {RealColumn("value", "", Better::kHigher), "Of steady steps (where none are found, of all the process's time).",
       &GuidedLine::value},
      {TextColumn("unit"), "Of the value; empty: a plain ratio.", &GuidedLine::unit},
      {TextColumn("verdict"),
       "low, ok; negligible: low, but less than 1 % of the time could be saved; unknown: no threshold is known; none: "
       "nothing to report; rank of kernels.",
       &GuidedLine::verdict},
      {As(Role::kKey, TextColumn("what")), "Which kernel.", Known(&GuidedLine::what)},
      {time("time",
            "What the value is made of: the time above the fraction's line, in a mean steady step (of copies' "
            "throughput: the sum of the durations of those that it covers; of kernels: alike)."),
       [](const GuidedLine& line) { return Mean(line.time_ns, line.steps); }},
      {time("of",
            "The time below the line, in a mean steady step (of throughput: all copies between host and device)."),
       [](const GuidedLine& line) { return Mean(line.of_ns, line.steps); }},
      {TimeColumn("at_stake"), "Upper bound on the time saved per step.",
       [](const GuidedLine& line) { return line.at_stake_ns ? Mean(*line.at_stake_ns, line.steps) : Cell(); }},
      {Detail(TextColumn("threshold")), "Threshold for low, and its source.", &GuidedLine::threshold},
      {Detail(TextColumn("advice")), "What helps.", &GuidedLine::advice},
  });
  return columns;
}

// Copies between host and device, one by one.
struct Rates {
  int64_t all_ns = 0;
  int64_t all_bytes = 0;
  int64_t slow_ns = 0;
  int64_t slow_bytes = 0;
  int64_t wasted_ns = 0;    // of slow copies: time beyond what the link's peak needs
  double bytes_per_ns = 0;  // peak
  bool is_link_known = false;
};

bool CrossesLink(const TraceModel& model, GpuIndex activity) {
  const CopyDirection direction = model.gpu.direction[activity];
  return direction == CopyDirection::kHostToDevice || direction == CopyDirection::kDeviceToHost;
}

double RateOf(const TraceModel& model, GpuIndex activity) {
  return static_cast<double>(model.gpu.bytes[activity]) / static_cast<double>(model.gpu.DurationNs(activity));
}

class Guided {
 public:
  Guided(const TraceModel& model, const GpuRun& run, GpuDeviceIndex device)
      : model_(model), device_(device), timeline_(run.TimelineOf(device)), time_(run.SteadyTime(device)) {}

  std::vector<GuidedLine> Lines() const {
    std::vector<GuidedLine> lines = {Efficiency(),  CopyComputeOverlap(), Throughput(),
                                     CopyOverlap(), Utilization(),        Concurrency()};
    for (GuidedLine& line : Kernels()) lines.push_back(std::move(line));
    return lines;
  }

 private:
  int64_t In(const IntervalSet& set) const { return CoveredIn(set, time_); }
  int64_t In(const IntervalSet& a, const IntervalSet& b) const { return CoveredIn(a.Intersection(b), time_); }

  std::string Verdict(bool is_low, int64_t at_stake_ns) const {
    if (!is_low) return "ok";
    const double part =
        100.0 * static_cast<double>(at_stake_ns) / static_cast<double>(std::max<int64_t>(time_.total_ns(), 1));
    return part < kNegligiblePercent ? "negligible" : kLow;
  }

  // Calls `take` for each activity that begins in this time.
  template <typename Take>
  void ForEach(Take take) const {
    const auto [begin, end] = GpuRangeOf(model_, device_);
    for (GpuIndex activity = begin; activity < end; ++activity) {
      const int64_t start_ns = model_.gpu.start_ns[activity];
      if (model_.gpu.DurationNs(activity) > 0 && time_.CoveredNs(start_ns, start_ns + 1) > 0) take(activity);
    }
  }

  GuidedLine Efficiency() const {
    GuidedLine line = {.metric = "compute/memcpy efficiency",
                       .verdict = "none",
                       .threshold = "below 1: more copies than compute (dlhook's)",
                       .advice = "copy less: keep data on the GPU, send smaller types, or overlap copies with kernels"};
    line.time_ns = In(timeline_.compute);
    line.of_ns = In(timeline_.copies);
    if (line.of_ns == 0) return line;
    const int64_t exposed_ns = line.of_ns - In(timeline_.copies, timeline_.compute);
    line.value = static_cast<double>(line.time_ns) / static_cast<double>(line.of_ns);
    line.at_stake_ns = exposed_ns;
    line.verdict = Verdict(line.time_ns < line.of_ns, exposed_ns);
    return line;
  }

  // A part that should be large: the rest is at stake.
  GuidedLine Part(GuidedLine line) const {
    line.unit = "%";
    line.verdict = "none";
    if (line.of_ns == 0) return line;
    line.value = Percent(line.time_ns, line.of_ns);
    line.at_stake_ns = line.of_ns - line.time_ns;
    line.verdict = Verdict(std::get<double>(line.value) < kLowPercent, line.of_ns - line.time_ns);
    return line;
  }

  // Overlap of two things that can run at once.
  GuidedLine Overlap(std::string metric, const IntervalSet& a, const IntervalSet& b, std::string advice) const {
    return Part({.metric = std::move(metric),
                 .time_ns = In(a, b),
                 .of_ns = std::min(In(a), In(b)),
                 .threshold = "below 50 % of what is possible (dlhook's)",
                 .advice = std::move(advice)});
  }

  GuidedLine CopyComputeOverlap() const {
    return Overlap(
        "memcpy/compute overlap", timeline_.copies, timeline_.compute,
        "pinned host memory, asynchronous copies on a stream of their own, the next batch while this one computes");
  }

  GuidedLine CopyOverlap() const {
    return Overlap("memcpy overlap", timeline_.to_device, timeline_.from_device,
                   "copy to and from the device on two streams, from pinned memory: the link works both ways at once");
  }

  Rates CopyRates() const {
    Rates rates;
    rates.bytes_per_ns = static_cast<double>(model_.gpu_devices[device_].link_bytes_per_second) / 1e9;
    rates.is_link_known = rates.bytes_per_ns > 0;
    ForEach([&](GpuIndex activity) {
      if (!CrossesLink(model_, activity) || model_.gpu.bytes[activity] == 0) return;
      rates.all_ns += model_.gpu.DurationNs(activity);
      rates.all_bytes += static_cast<int64_t>(model_.gpu.bytes[activity]);
      if (!rates.is_link_known) rates.bytes_per_ns = std::max(rates.bytes_per_ns, RateOf(model_, activity));
    });
    ForEach([&](GpuIndex activity) {
      if (!CrossesLink(model_, activity) || model_.gpu.bytes[activity] == 0) return;
      if (RateOf(model_, activity) >= rates.bytes_per_ns * kLowPercent / 100) return;
      const int64_t duration_ns = model_.gpu.DurationNs(activity);
      rates.slow_ns += duration_ns;
      rates.slow_bytes += static_cast<int64_t>(model_.gpu.bytes[activity]);
      rates.wasted_ns +=
          duration_ns - static_cast<int64_t>(static_cast<double>(model_.gpu.bytes[activity]) / rates.bytes_per_ns);
    });
    return rates;
  }

  GuidedLine Throughput() const {
    const Rates rates = CopyRates();
    GuidedLine line = {.metric = "memcpy throughput",
                       .unit = "MB/s",
                       .verdict = "none",
                       .advice = "pinned host memory; a few large copies in place of many small ones"};
    line.time_ns = rates.slow_ns > 0 ? rates.slow_ns : rates.all_ns;
    line.of_ns = rates.all_ns;
    if (rates.all_ns == 0) return line;
    const int64_t bytes = rates.slow_ns > 0 ? rates.slow_bytes : rates.all_bytes;
    line.value = 1e3 * static_cast<double>(bytes) / static_cast<double>(line.time_ns);
    line.at_stake_ns = rates.wasted_ns;
    line.verdict = Verdict(rates.slow_ns > 0, rates.wasted_ns);
    line.threshold = absl::StrFormat(
        "copies below half of %.0f MB/s, %s", 1e3 * rates.bytes_per_ns,
        rates.is_link_known ? "the link's peak" : "the fastest one's rate (the link's peak is not known)");
    return line;
  }

  GuidedLine Utilization() const {
    return Part({.metric = "compute utilization",
                 .time_ns = In(timeline_.compute),
                 .of_ns = time_.total_ns(),
                 .threshold = "below 50 % (the default of Nsight Systems' rule gpu_time_util)",
                 .advice = "table gpu_idle shows what the GPU waits for"});
  }

  // A kernel with fewer blocks than the device has multiprocessors leaves some of them idle: others could run at the
  // same time.
  IntervalSet SmallKernels() const {
    std::vector<Interval> small;
    ForEach([&](GpuIndex activity) {
      if (GpuWorkOf(model_, activity) != GpuWork::kCompute || model_.gpu.kernel[activity] == kNone) return;
      const uint32_t* grid = model_.gpu_kernels[model_.gpu.kernel[activity]].grid;
      const uint64_t blocks = uint64_t{grid[0]} * grid[1] * grid[2];
      if (blocks == 0 || blocks >= model_.gpu_devices[device_].multiprocessors) return;
      small.push_back({model_.gpu.start_ns[activity], model_.gpu.end_ns[activity]});
    });
    return IntervalSet(std::move(small));
  }

  GuidedLine Concurrency() const {
    GuidedLine line = {
        .metric = "kernel concurrency",
        .unit = "%",
        .verdict = "none",
        .threshold =
            "most of the time of kernels with fewer blocks than multiprocessors runs without another kernel (dlhook's)",
        .advice = "independent kernels on several streams or in a CUDA graph; larger batches also fill the device"};
    line.time_ns = In(timeline_.compute_twice);
    line.of_ns = In(timeline_.compute);
    if (line.of_ns == 0) return line;
    line.value = Percent(line.time_ns, line.of_ns);
    line.verdict = "unknown";
    if (model_.gpu_devices[device_].multiprocessors == 0) return line;
    const IntervalSet small = SmallKernels();
    const int64_t small_ns = In(small), alone_ns = small_ns - In(small, timeline_.compute_twice);
    line.at_stake_ns = alone_ns;
    line.verdict = Verdict(2 * alone_ns > small_ns, alone_ns);
    return line;
  }

  std::string KernelName(GpuIndex activity) const {
    const GpuKernelIndex kernel = model_.gpu.kernel[activity];
    const NameIndex name = kernel == kNone ? kNone : model_.gpu_kernels[kernel].short_name;
    if (name != kNone) return model_.names[name];
    const CallIndex call = model_.gpu.call[activity];
    return call == kNone ? "" : model_.ops[model_.calls.op[call]].function;
  }

  std::vector<GuidedLine> Kernels() const {
    std::map<std::string, int64_t> by_name;
    std::map<std::pair<GpuKernelIndex, OpIndex>, int64_t> by_kernel;  // looks up each name once
    std::map<std::pair<GpuKernelIndex, OpIndex>, GpuIndex> examples;
    int64_t all_ns = 0;
    ForEach([&](GpuIndex activity) {
      if (GpuWorkOf(model_, activity) != GpuWork::kCompute) return;
      const GpuKernelIndex kernel = model_.gpu.kernel[activity];
      const CallIndex call = model_.gpu.call[activity];
      const std::pair key = {kernel, kernel == kNone && call != kNone ? model_.calls.op[call] : kNone};
      by_kernel[key] += model_.gpu.DurationNs(activity);
      examples.try_emplace(key, activity);
      all_ns += model_.gpu.DurationNs(activity);
    });
    for (const auto& [key, ns] : by_kernel) by_name[KernelName(examples[key])] += ns;
    std::vector<GuidedLine> lines;
    for (const auto& [name, ns] : LargestFirst(by_name)) {
      if (lines.size() == kRankedKernels) break;
      GuidedLine line = {.metric = "kernel priority",
                         .unit = "%",
                         .what = name,
                         .threshold = "none: a ranking by time",
                         .advice = "table kernels shows which layer and op launch it"};
      line.verdict = absl::StrCat("rank ", lines.size() + 1);
      line.time_ns = ns;
      line.of_ns = all_ns;
      line.value = Percent(ns, all_ns);
      line.at_stake_ns = ns;
      lines.push_back(std::move(line));
    }
    return lines;
  }

  const TraceModel& model_;
  const GpuDeviceIndex device_;
  const GpuTimeline& timeline_;
  const IntervalSet& time_;
};

std::string LowNote(const GuidedLine& line, const std::string& device) {
  return absl::StrCat("On ", device, " low ", line.metric, ": ", line.advice, ". At stake: at most ",
                      HumanTime(*line.at_stake_ns / line.steps), " of a mean step. Low is: ", line.threshold, ".");
}

}  // namespace

absl::StatusOr<Table> GuidedTable(const TraceModel& model, const TableOptions& options) {
  const std::string title = "GPU utilisation: the metrics of the Visual Profiler's guided analysis";
  if (model.gpu.empty()) return NewTable("guided", title, GuidedColumns(false));
  const GpuRun run(model, options.analysis->steps());
  const TypedColumns<GuidedLine> columns = GuidedColumns(run.HasSeveralProcesses());
  Table table = NewTable("guided", title, columns);
  for (GpuDeviceIndex device : run.devices()) {
    for (GuidedLine& line : Guided(model, run, device).Lines()) {
      line.device = run.LabelOf(device);
      line.steps = std::max<int64_t>(run.Steps(device), 1);
      AddRow(columns, line, &table);
      if (line.verdict == kLow) table.notes.push_back(LowNote(line, run.NameOf(device)));
    }
  }
  for (std::string& note : run.Notes()) table.notes.push_back(std::move(note));
  return table;
}

}  // namespace dlhook::analyzer::tables
