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

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/gpu/gpu_tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr double kLowPercent = 50;        // of what is possible
constexpr double kNegligiblePercent = 1;  // of the steps' time: metrics with less at stake get no verdict
constexpr size_t kRankedKernels = 5;
constexpr char kLow[] = "low";
constexpr char kOfPossible[] = "below 50 % of what is possible (dlhook's)";

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

// The row of a metric: a fraction of times, but for throughput.
struct GuidedLine {
  std::string metric = {};
  std::string unit = "%";
  int64_t time_ns = 0;
  int64_t of_ns = 0;
  std::string threshold = {};
  std::string advice = {};
  std::string what = {};
  Cell value = {};
  std::string verdict = "none";
  std::optional<int64_t> at_stake_ns = {};  // of all steps
  DeviceLabel device = {};
  int64_t steps = 1;
};

TypedColumns<GuidedLine> GuidedColumns(bool has_processes) {
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
      {IntegerColumn("time", "ns", Better::kNeither),
       "What the value is made of: the time above the fraction's line, in a mean steady step (of copies' "
       "throughput: the sum of the durations of those that it covers; of kernels: alike).",
       [](const GuidedLine& line) { return Mean(line.time_ns, line.steps); }},
      {IntegerColumn("of", "ns", Better::kNeither),
       "The time below the line, in a mean steady step (of throughput: all copies between host and device).",
       [](const GuidedLine& line) { return Mean(line.of_ns, line.steps); }},
      {TimeColumn("at_stake"), "Upper bound on the time saved per step.",
       [](const GuidedLine& line) { return line.at_stake_ns ? Mean(*line.at_stake_ns, line.steps) : Cell(); }},
      {Detail(TextColumn("threshold")), "Threshold for low, and its source.", &GuidedLine::threshold},
      {Detail(TextColumn("advice")), "What helps.", &GuidedLine::advice},
  });
  return columns;
}

// A copy between host and device.
struct Transfer {
  int64_t ns;
  int64_t bytes;
  double Rate() const { return static_cast<double>(bytes) / static_cast<double>(ns); }
};

class Guided {
 public:
  Guided(const TraceModel& model, const GpuRun& run, GpuDeviceIndex device)
      : model_(model),
        device_(model.gpu_devices[device]),
        range_(GpuRangeOf(model, device)),
        timeline_(run.TimelineOf(device)),
        time_(run.SteadyTime(device)) {}

  std::vector<GuidedLine> Lines() const {
    const int64_t compute_ns = In(timeline_.compute), copies_ns = In(timeline_.copies);
    const int64_t beside_ns = In(timeline_.copies.Intersection(timeline_.compute));
    std::vector<GuidedLine> lines = {
        Judged({.metric = "compute/memcpy efficiency",
                .unit = "",
                .time_ns = compute_ns,
                .of_ns = copies_ns,
                .threshold = "below 1: more copies than compute (dlhook's)",
                .advice = "copy less: keep data on the GPU, send smaller types, or overlap copies with kernels"},
               compute_ns < copies_ns, copies_ns - beside_ns),
        Part({.metric = "memcpy/compute overlap",
              .time_ns = beside_ns,
              .of_ns = std::min(copies_ns, compute_ns),
              .threshold = kOfPossible,
              .advice = "pinned host memory, asynchronous copies on a stream of their own, the next batch while this "
                        "one computes"}),
        Throughput(),
        Part({.metric = "memcpy overlap",
              .time_ns = In(timeline_.to_device.Intersection(timeline_.from_device)),
              .of_ns = std::min(In(timeline_.to_device), In(timeline_.from_device)),
              .threshold = kOfPossible,
              .advice = "copy to and from the device on two streams, from pinned memory: the link works both ways at "
                        "once"}),
        Part({.metric = "compute utilization",
              .time_ns = compute_ns,
              .of_ns = time_.total_ns(),
              .threshold = "below 50 % (the default of Nsight Systems' rule gpu_time_util)",
              .advice = "table gpu_idle shows what the GPU waits for"}),
        Concurrency(compute_ns)};
    for (GuidedLine& line : Kernels()) lines.push_back(std::move(line));
    return lines;
  }

 private:
  int64_t In(const IntervalSet& set) const { return CoveredIn(set, time_); }

  // Calls `take` for each activity that begins in this time.
  template <typename Take>
  void ForEach(Take take) const {
    for (GpuIndex activity = range_.first; activity < range_.second; ++activity) {
      const int64_t start_ns = model_.gpu.start_ns[activity];
      if (model_.gpu.DurationNs(activity) > 0 && time_.CoveredNs(start_ns, start_ns + 1) > 0) take(activity);
    }
  }

  // With the value of its fraction, if there is any, and the verdict; not known: no threshold is.
  GuidedLine Judged(GuidedLine line, bool is_low, std::optional<int64_t> at_stake_ns) const {
    if (line.of_ns == 0) return line;
    const double fraction = static_cast<double>(line.time_ns) / static_cast<double>(line.of_ns);
    line.value = line.unit.empty() ? Cell(fraction) : Percent(line.time_ns, line.of_ns);
    line.at_stake_ns = at_stake_ns;
    const double part = 100.0 * static_cast<double>(at_stake_ns.value_or(0)) /
                        static_cast<double>(std::max<int64_t>(time_.total_ns(), 1));
    line.verdict = !at_stake_ns ? "unknown" : !is_low ? "ok" : part < kNegligiblePercent ? "negligible" : kLow;
    return line;
  }

  // A part that should be large: the rest is at stake.
  GuidedLine Part(const GuidedLine& line) const {
    const bool is_low = 100 * static_cast<double>(line.time_ns) < kLowPercent * static_cast<double>(line.of_ns);
    return Judged(line, is_low, line.of_ns - line.time_ns);
  }

  GuidedLine Throughput() const {
    std::vector<Transfer> transfers;
    ForEach([&](GpuIndex activity) {
      const CopyDirection direction = model_.gpu.direction[activity];
      const bool crosses = direction == CopyDirection::kHostToDevice || direction == CopyDirection::kDeviceToHost;
      if (!crosses || model_.gpu.bytes[activity] == 0) return;
      transfers.push_back({model_.gpu.DurationNs(activity), static_cast<int64_t>(model_.gpu.bytes[activity])});
    });
    const bool is_link_known = device_.link_bytes_per_second > 0;
    double peak = static_cast<double>(device_.link_bytes_per_second) / 1e9;  // bytes per ns
    Transfer all = {}, slow = {};
    int64_t wasted_ns = 0;  // by slow copies: time beyond what the link's peak needs
    for (const Transfer& one : transfers) {
      all = {all.ns + one.ns, all.bytes + one.bytes};
      if (!is_link_known) peak = std::max(peak, one.Rate());
    }
    for (const Transfer& one : transfers) {
      if (one.Rate() >= peak * kLowPercent / 100) continue;
      slow = {slow.ns + one.ns, slow.bytes + one.bytes};
      wasted_ns += one.ns - static_cast<int64_t>(static_cast<double>(one.bytes) / peak);
    }
    const Transfer& shown = slow.ns > 0 ? slow : all;
    GuidedLine line = {.metric = "memcpy throughput",
                       .unit = "MB/s",
                       .time_ns = shown.ns,
                       .of_ns = all.ns,
                       .advice = "pinned host memory; a few large copies in place of many small ones"};
    if (all.ns == 0) return line;
    line.threshold =
        absl::StrFormat("copies below half of %.0f MB/s, %s", 1e3 * peak,
                        is_link_known ? "the link's peak" : "the fastest one's rate (the link's peak is not known)");
    line = Judged(line, slow.ns > 0, wasted_ns);
    line.value = 1e3 * static_cast<double>(shown.bytes) / static_cast<double>(shown.ns);
    return line;
  }

  // A kernel with fewer blocks than the device has multiprocessors leaves some of them idle: others could run at the
  // same time.
  IntervalSet SmallKernels() const {
    std::vector<Interval> small;
    ForEach([&](GpuIndex activity) {
      if (GpuWorkOf(model_, activity) != GpuWork::kCompute || model_.gpu.kernel[activity] == kNone) return;
      const uint32_t* grid = model_.gpu_kernels[model_.gpu.kernel[activity]].grid;
      const uint64_t blocks = uint64_t{grid[0]} * grid[1] * grid[2];
      if (blocks == 0 || blocks >= device_.multiprocessors) return;
      small.push_back({model_.gpu.start_ns[activity], model_.gpu.end_ns[activity]});
    });
    return IntervalSet(std::move(small));
  }

  GuidedLine Concurrency(int64_t compute_ns) const {
    const IntervalSet small = SmallKernels();
    const int64_t small_ns = In(small), alone_ns = small_ns - In(small.Intersection(timeline_.compute_twice));
    const bool is_known = device_.multiprocessors > 0;
    return Judged(
        {.metric = "kernel concurrency",
         .time_ns = In(timeline_.compute_twice),
         .of_ns = compute_ns,
         .threshold = "most of the time of kernels with fewer blocks than multiprocessors runs without another kernel "
                      "(dlhook's)",
         .advice = "independent kernels on several streams or in a CUDA graph; larger batches also fill the device"},
        2 * alone_ns > small_ns, is_known ? std::optional(alone_ns) : std::nullopt);
  }

  std::string KernelName(GpuIndex activity) const {
    const GpuKernelIndex kernel = model_.gpu.kernel[activity];
    const NameIndex name = kernel == kNone ? kNone : model_.gpu_kernels[kernel].short_name;
    if (name != kNone) return model_.names[name];
    const CallIndex call = model_.gpu.call[activity];
    return call == kNone ? "" : model_.ops[model_.calls.op[call]].function;
  }

  std::vector<GuidedLine> Kernels() const {
    std::map<std::pair<GpuKernelIndex, OpIndex>, std::pair<int64_t, GpuIndex>> by_kernel;  // looks up each name once
    int64_t all_ns = 0;
    ForEach([&](GpuIndex activity) {
      if (GpuWorkOf(model_, activity) != GpuWork::kCompute) return;
      const GpuKernelIndex kernel = model_.gpu.kernel[activity];
      const CallIndex call = model_.gpu.call[activity];
      const OpIndex op = kernel == kNone && call != kNone ? model_.calls.op[call] : kNone;
      by_kernel.try_emplace({kernel, op}, 0, activity).first->second.first += model_.gpu.DurationNs(activity);
      all_ns += model_.gpu.DurationNs(activity);
    });
    std::map<std::string, int64_t> by_name;
    for (const auto& [key, sum] : by_kernel) by_name[KernelName(sum.second)] += sum.first;
    std::vector<GuidedLine> lines;
    for (const auto& [name, ns] : LargestFirst(by_name)) {
      if (lines.size() == kRankedKernels) break;
      lines.push_back({.metric = "kernel priority",
                       .time_ns = ns,
                       .of_ns = all_ns,
                       .threshold = "none: a ranking by time",
                       .advice = "table kernels shows which layer and op launch it",
                       .what = name,
                       .value = Percent(ns, all_ns),
                       .verdict = absl::StrCat("rank ", lines.size() + 1),
                       .at_stake_ns = ns});
    }
    return lines;
  }

  const TraceModel& model_;
  const GpuDevice& device_;
  const std::pair<GpuIndex, GpuIndex> range_;
  const GpuTimeline& timeline_;
  const IntervalSet& time_;
};

std::string LowNote(const GuidedLine& line, const std::string& device) {
  return absl::StrCat("On ", device, " low ", line.metric, ": ", line.advice, ". At stake: at most ",
                      HumanTime(*line.at_stake_ns / line.steps), " of a mean step. Low is: ", line.threshold, ".");
}

}  // namespace

absl::StatusOr<Table> GuidedTable(const TraceModel& model, const TableOptions& options) {
  const GpuRun run(model, options);
  const TypedColumns<GuidedLine> columns = GuidedColumns(run.HasSeveralProcesses());
  Table table = NewTable("guided", "GPU utilisation: the metrics of the Visual Profiler's guided analysis", columns);
  for (GpuDeviceIndex device : run.devices()) {
    for (GuidedLine& line : Guided(model, run, device).Lines()) {
      line.device = run.LabelOf(device);
      line.steps = run.StepsOrOne(device);
      AddRow(columns, line, &table);
      if (line.verdict == kLow) table.notes.push_back(LowNote(line, run.NameOf(device)));
    }
  }
  run.AddNotes(&table);
  return table;
}

}  // namespace dlhook::analyzer::tables
