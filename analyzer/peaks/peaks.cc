#include "analyzer/peaks/peaks.h"

#include "preload/counters/counter_names.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer::inline peaks {
namespace {

constexpr uint32_t kWith128Bits = kZen1;                     // two units of 128 bits
constexpr uint32_t kWithoutFma = kSandyBridge | kIvyBridge;  // an addition and a multiplication of 256 bits
constexpr uint32_t kWith512Bits = kSkylakeServer | kIceLake | kSapphireRapids | kZen5;

// Multiply-adds in a cycle of a multiprocessor; 0: not stated.
struct Multiprocessor {
  uint32_t compute_capability;
  double f32, f64, tf32, f16, int8;
};
constexpr Multiprocessor kMultiprocessors[] = {
    {60, 64, 32, 0, 0, 0},             // P100
    {61, 128, 4, 0, 0, 0},             // Pascal, GeForce
    {70, 64, 32, 0, 512, 0},           // V100
    {75, 64, 2, 0, 512, 1024},         // Turing
    {80, 64, 64, 512, 1024, 2048},     // A100
    {86, 128, 2, 256, 512, 1024},      // A40, RTX 30
    {89, 128, 2, 256, 512, 1024},      // L40, RTX 40
    {90, 128, 128, 1024, 2048, 4096},  // H100, H200
    {94, 128, 128, 512, 1024, 2048}    // MI300X
};

// Of the vendors' data sheets, the clock at which a GPU has the rates that are stated there: for traces that don't tell it, and for
// tensor cores, whose rates are stated at less than the clock that the others reach (H100: 989 TFLOP/s at 1830 of 1980 MHz).
struct SpecifiedClock {
  uint32_t compute_capability;  // an RTX A1000 is no A100
  absl::string_view name;
  double khz;
};
constexpr SpecifiedClock kClocks[] = {{70, "V100-SXM2", 1530e3},      {75, "Tesla T4", 1590e3}, {80, "A100", 1410e3},
                                      {90, "H100 80GB HBM3", 1830e3}, {90, "H200", 1830e3},     {94, "MI300X", 2100e3}};

double ClockOf(const GpuDevice& device, bool on_tensor_cores) {
  const auto* const found = absl::c_find_if(kClocks, [&](const SpecifiedClock& one) {
    return one.compute_capability == device.compute_capability && absl::StrContains(device.name, one.name);
  });
  if (found == std::end(kClocks) || (device.clock_khz != 0 && !on_tensor_cores)) return device.clock_khz;
  return device.clock_khz == 0 ? found->khz : std::min<double>(device.clock_khz, found->khz);
}

// That OpenMP was told to use; all that the process may run on where it was told nothing.
uint32_t ThreadsOf(const ProcessInfo& process) {
  for (const auto& [name, value] : process.settings) {
    uint32_t threads = 0;
    const std::vector<absl::string_view> levels = absl::StrSplit(value, ',');
    if (name != "OMP_NUM_THREADS" || !absl::SimpleAtoi(levels.front(), &threads) || threads == 0) continue;
    return std::min(threads, process.processors);
  }
  return process.processors;
}

// Whether what is known of the first process's machine holds for all of them.
bool AreOfOneKind(const std::vector<ProcessInfo>& processes) {
  if (processes.empty()) return false;
  const ProcessInfo& first = processes.front();
  return absl::c_all_of(processes, [&](const ProcessInfo& process) {
    return process.processor == first.processor && process.processors == first.processors &&
           ThreadsOf(process) == ThreadsOf(first);
  });
}

// With `threads` of the machine's processors: no more than all together, or than each alone.
double RateWith(double one, double all, double threads, double processors) {
  if (threads >= processors || one == 0) return all;
  const double sum = one * threads;
  return all == 0 ? sum : std::min(sum, all);
}

double LeastTime(double amount, double rate) { return amount > 0 && rate > 0 ? amount / rate : 0; }

}  // namespace

// Tables by microarchitecture and compute capability.
std::optional<double> CoreFlopsPerCycle(const ProcessorInfo& processor, absl::string_view type) {
  const uint32_t sets = processor.instruction_sets;
  if (type == "bf16" && (sets & kAmxBf16) != 0) return 1024;
  if (type == "int8" && (sets & kAmxInt8) != 0) return 2048;
  if (type != "f32" && type != "f64") return std::nullopt;
  const uint32_t core =
      ProcessorOf(processor.vendor.c_str(), processor.family, processor.model, processor.threads_per_core > 1).core;
  if (core == kUnknownCore) return std::nullopt;
  double f32 = 32;  // two multiply-adds of 256 bits
  if ((core & (kWith128Bits | kWithoutFma)) != 0) f32 = 16;
  if ((core & kWith512Bits) != 0 && (sets & kAvx512) != 0) f32 = 64;
  return type == "f64" ? f32 / 2 : f32;
}

std::optional<double> StatedCoreRate(const ProcessInfo& process, absl::string_view type) {
  const std::optional<double> per_cycle = CoreFlopsPerCycle(process.processor, type);
  if (!per_cycle || process.clock != ClockKind::kTsc || process.ticks_per_second == 0) return std::nullopt;
  return *per_cycle * static_cast<double>(process.ticks_per_second) / 1e9;
}

std::optional<double> StatedGpuRate(const GpuDevice& device, absl::string_view type) {
  const auto* const found = absl::c_find_if(
      kMultiprocessors, [&](const Multiprocessor& one) { return one.compute_capability == device.compute_capability; });
  const double khz = ClockOf(device, type != "f32" && type != "f64");
  if (found == std::end(kMultiprocessors) || device.multiprocessors == 0 || khz == 0) return std::nullopt;
  const double in_a_cycle = type == "f32"                     ? found->f32
                            : type == "f64"                   ? found->f64
                            : type == "tf32"                  ? found->tf32
                            : type == "f16" || type == "bf16" ? found->f16
                            : type == "int8"                  ? found->int8
                                                              : 0;
  if (in_a_cycle == 0 || (type == "bf16" && device.compute_capability < 80)) return std::nullopt;
  return 2 * in_a_cycle * device.multiprocessors * khz / 1e6;
}

const char* BoundKindName(BoundKind kind) {
  return NameIn<BoundKind::kSerial>(kind, {"", "compute", "memory", "launch", "serial"});
}

std::string PeakTypeOf(const Op& op) {
  const absl::string_view types = op.types;
  const std::string type(types.substr(0, types.find_first_of(":/")));  // of the first operand, however scaled
  if (type == "s8" || type == "u8") return "int8";
  const bool is_tf32 = op.on_gpu && type == "f32" && op.tensor_core && op.tensor_core->eligible;
  return is_tf32 ? "tf32" : type;
}

Peaks::Peaks(const TraceModel& model, const Calibration* calibration) {
  if (!AreOfOneKind(model.processes)) {
    if (model.processes.size() > 1)
      notes_.emplace_back("No bounds: processes ran on different machines or with different numbers of threads.");
    return;
  }
  const ProcessInfo& process = model.processes.front();
  threads_ = std::max(ThreadsOf(process), 1u);
  if (calibration != nullptr) {
    TakeMeasured(*calibration, threads_);
  } else {
    TakeStated(process, threads_);
  }
  TakeGpus(model, calibration);
}

void Peaks::TakeMeasured(const Calibration& calibration, uint32_t threads) {
  is_measured_ = true;
  const uint32_t processors = calibration.processors;
  const auto best = [&](absl::string_view what, uint32_t by) {
    const Measurement* measurement = calibration.Find(what, by);
    return measurement == nullptr ? 0.0 : measurement->best;
  };
  const auto rate_of = [&](absl::string_view what) -> Rate {
    const double one = best(what, 1), all = std::max(one, best(what, processors));
    return {one, RateWith(one, all, threads, processors)};
  };
  for (const absl::string_view type : kProductTypes) {
    const Rate rate = rate_of(type);
    if (rate.all > 0) on_cpu_[std::string(type)] = rate;
  }
  const std::pair<const char*, double> levels[] = {{kL2Read, static_cast<double>(calibration.l2_bytes) * threads},
                                                   {kL3Read, static_cast<double>(calibration.l3_bytes)},
                                                   {kMemoryRead, std::numeric_limits<double>::infinity()}};
  for (const auto& [what, bytes] : levels) {
    if (const Rate rate = rate_of(what); rate.all > 0) levels_.push_back({bytes, rate});
  }
  call_ns_ = best(kCallCost, 1);
  if (threads > 1) dividing_ns_ = best(kDividing, processors);
  notes_.push_back(absl::StrFormat("Bounds use peaks that dlhook calibrate measured on %s, for %d thread%s.",
                                   calibration.date.substr(0, calibration.date.find('T')), threads,
                                   threads == 1 ? "" : "s"));
  if (calibration.waiting_percent > kBusyPercent) {
    notes_.emplace_back("The machine was busy when it was measured: its peaks may be too low.");
  }
}

void Peaks::TakeStated(const ProcessInfo& process, uint32_t threads) {
  const uint32_t per_core = std::max(process.processor.threads_per_core, 1u);
  const uint32_t cores = std::max(std::min(threads, (process.processors + per_core - 1) / per_core), 1u);
  for (const absl::string_view type : kProductTypes) {
    const std::optional<double> one = StatedCoreRate(process, type);
    if (one) on_cpu_[std::string(type)] = {*one, *one * cores};
  }
  if (on_cpu_.empty()) return;
  notes_.push_back(
      absl::StrFormat("Bounds use stated peaks: %d core%s at the nominal frequency, which turbo exceeds; memory is not "
                      "included. dlhook calibrate, on the run's machine, measures both.",
                      cores, cores == 1 ? "" : "s"));
}

void Peaks::TakeGpus(const TraceModel& model, const Calibration* calibration) {
  if (model.gpu_devices.empty()) return;
  const GpuDevice& first = model.gpu_devices.front();
  for (const GpuDevice& device : model.gpu_devices) {
    if (device.name != first.name || device.multiprocessors != first.multiprocessors || device.is_partition) return;
  }
  for (const char* type : {"f32", "tf32", "f64", "f16", "bf16", "int8"}) {
    if (const std::optional<double> rate = StatedGpuRate(first, type)) on_gpu_[type] = *rate;
  }
  gpu_memory_ = static_cast<double>(first.memory_bytes_per_second) / 1e9;
  if (on_gpu_.empty()) return;
  notes_.push_back(absl::StrCat("Bounds on the GPU use stated peaks: multiprocessors x ",
                                first.clock_khz == 0 ? "specified " : "", "clock of ", first.name,
                                gpu_memory_ > 0
                                    ? ", and its memory's bandwidth."
                                    : ". Its memory's bandwidth is not known, so it is not said what bounds a call."));
  if (calibration == nullptr || calibration->gpu != first.name) return;
  const Measurement* launch = calibration->Find(kGpuLaunch, 0);
  if (launch != nullptr) gpu_launch_ns_ = launch->best;
}

std::optional<Bound> Peaks::BoundOf(const Op& op) const {
  return BoundOf(op, static_cast<double>(op.flops.value_or(0)), static_cast<double>(op.bytes.value_or(0)));
}

std::optional<Bound> Peaks::BoundOf(const Op& op, double flops, double bytes) const {
  if (op.is_creation || op.is_trial || op.captured) return std::nullopt;
  const std::string type = PeakTypeOf(op);
  return op.on_gpu ? GpuBound(type, flops, bytes) : CpuBound(type, flops, bytes, threads_);
}

std::optional<Bound> Peaks::MeasuredBound(const std::string& type, double flops, double bytes, double threads) const {
  if (!is_measured_) return std::nullopt;
  return CpuBound(type, flops, bytes, std::clamp<double>(threads, 1, threads_));
}

std::vector<Roof> Peaks::Roofs() const {
  std::vector<Roof> roofs;
  for (const auto& [type, rate] : on_cpu_) roofs.push_back({.name = type, .value = rate.all});
  for (const Level& level : levels_) {
    const std::string name =
        std::isinf(level.bytes) ? std::string("memory") : absl::StrFormat("caches up to %.0f KiB", level.bytes / 1024);
    roofs.push_back({.name = name, .value = level.rate.all, .is_bandwidth = true});
  }
  for (const auto& [type, rate] : on_gpu_) roofs.push_back({.name = type, .value = rate, .on_gpu = true});
  if (gpu_memory_ > 0) {
    roofs.push_back({.name = "GPU memory", .value = gpu_memory_, .is_bandwidth = true, .on_gpu = true});
  }
  return roofs;
}

std::optional<double> Peaks::RateOf(const Op& op) const {
  const std::string type = PeakTypeOf(op);
  if (op.on_gpu) {
    const auto rate = on_gpu_.find(type);
    return rate == on_gpu_.end() ? std::nullopt : std::optional(rate->second);
  }
  const auto rate = on_cpu_.find(type);
  return rate == on_cpu_.end() ? std::nullopt : std::optional(rate->second.all);
}

std::optional<Bound> Peaks::CpuBound(const std::string& type, double flops, double bytes, double threads) const {
  const auto peak = on_cpu_.find(type);
  if (flops > 0 && peak == on_cpu_.end()) return std::nullopt;
  const auto with = [&](Rate rate) -> Rate { return {rate.one, RateWith(rate.one, rate.all, threads, threads_)}; };
  const Rate compute = peak == on_cpu_.end() ? Rate() : with(peak->second);
  Rate memory;
  for (const Level& level : levels_) {
    memory = with(level.rate);
    if (bytes <= level.bytes) break;
  }
  if (flops == 0 && (bytes == 0 || memory.all == 0)) return std::nullopt;
  const double divided_compute = LeastTime(flops, compute.all), divided_memory = LeastTime(bytes, memory.all);
  const double divided = std::max(divided_compute, divided_memory);
  const double alone = std::max(LeastTime(flops, compute.one), LeastTime(bytes, memory.one));
  const bool knows_both = bytes > 0 && memory.all > 0;
  const bool knows_alone = (flops == 0 || compute.one > 0) && (!knows_both || memory.one > 0);
  Bound bound = {divided + dividing_ns_, divided_memory > divided_compute ? BoundKind::kMemory : BoundKind::kCompute};
  if (threads_ > 1 && knows_alone && alone < bound.ns) {
    bound.ns = alone;
    if (divided < alone) bound.kind = BoundKind::kSerial;  // else more threads would bring nothing anyway
  }
  if (!knows_both) bound.kind = BoundKind::kUnknown;
  if (call_ns_ > bound.ns) bound = {call_ns_, BoundKind::kLaunch};
  return bound;
}

std::optional<Bound> Peaks::GpuBound(const std::string& type, double flops, double bytes) const {
  const auto peak = on_gpu_.find(type);
  if (flops > 0 && peak == on_gpu_.end()) return std::nullopt;
  const double compute = peak == on_gpu_.end() ? 0 : LeastTime(flops, peak->second),
               memory = LeastTime(bytes, gpu_memory_);
  if (compute == 0 && memory == 0) return std::nullopt;
  Bound bound = {std::max(compute, memory), memory > compute ? BoundKind::kMemory : BoundKind::kCompute};
  if (memory == 0) bound.kind = BoundKind::kUnknown;
  if (gpu_launch_ns_ > bound.ns) bound.kind = BoundKind::kLaunch;
  return bound;
}

}  // namespace dlhook::analyzer::peaks
