// Tables by microarchitecture and compute capability.
#include "analyzer/peaks/stated_peaks.h"

#include <algorithm>

#include "absl/strings/match.h"
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

// For traces that don't tell it: of the vendors' data sheets, the clock at which a GPU has the rates that are stated there.
struct SpecifiedClock {
  uint32_t compute_capability;  // an RTX A1000 is no A100
  absl::string_view name;
  double khz;
};
constexpr SpecifiedClock kClocks[] = {{70, "V100-SXM2", 1530e3},      {75, "Tesla T4", 1590e3}, {80, "A100", 1410e3},
                                      {90, "H100 80GB HBM3", 1830e3}, {90, "H200", 1830e3},     {94, "MI300X", 2100e3}};

double ClockOf(const GpuDevice& device) {
  if (device.clock_khz != 0) return device.clock_khz;
  const auto* const found = std::find_if(std::begin(kClocks), std::end(kClocks), [&](const SpecifiedClock& one) {
    return one.compute_capability == device.compute_capability && absl::StrContains(device.name, one.name);
  });
  return found == std::end(kClocks) ? 0 : found->khz;
}

}  // namespace

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
  const auto* const found =
      std::find_if(std::begin(kMultiprocessors), std::end(kMultiprocessors),
                   [&](const Multiprocessor& one) { return one.compute_capability == device.compute_capability; });
  if (found == std::end(kMultiprocessors) || device.multiprocessors == 0 || ClockOf(device) == 0) return std::nullopt;
  const double in_a_cycle = type == "f32"                     ? found->f32
                            : type == "f64"                   ? found->f64
                            : type == "tf32"                  ? found->tf32
                            : type == "f16" || type == "bf16" ? found->f16
                            : type == "int8"                  ? found->int8
                                                              : 0;
  if (in_a_cycle == 0 || (type == "bf16" && device.compute_capability < 80)) return std::nullopt;
  return 2 * in_a_cycle * device.multiprocessors * ClockOf(device) / 1e6;
}

}  // namespace dlhook::analyzer::peaks
