#include "analyzer/gpu/occupancy.h"

namespace dlhook::analyzer::inline gpu {
namespace {

constexpr uint32_t kWarp = 32;  // threads
constexpr uint32_t kRegisters = 65536;
constexpr uint32_t kSubPartitions = 4;    // of a multiprocessor; each has its part of the registers
constexpr uint32_t kMostRegisters = 255;  // of a thread, by its instructions
constexpr uint32_t kRegistersStep = 256;  // allocation unit of a warp's registers

struct Multiprocessor {
  uint32_t compute_capability;  // major * 10 + minor
  uint32_t warps;
  uint32_t blocks;
  uint32_t shared_bytes;
  uint32_t shared_step;      // allocation unit of a block's shared memory, bytes
  uint32_t shared_reserved;  // of each block, for the system
};

constexpr Multiprocessor kMultiprocessors[] = {
    {70, 64, 32, 96 << 10, 256, 0},      {72, 64, 32, 96 << 10, 256, 0},      {75, 32, 16, 64 << 10, 256, 0},
    {80, 64, 32, 164 << 10, 128, 1024},  {86, 48, 16, 100 << 10, 128, 1024},  {87, 48, 16, 164 << 10, 128, 1024},
    {89, 48, 24, 100 << 10, 128, 1024},  {90, 64, 32, 228 << 10, 128, 1024},  {100, 64, 32, 228 << 10, 128, 1024},
    {103, 64, 32, 228 << 10, 128, 1024}, {110, 48, 24, 228 << 10, 128, 1024}, {120, 48, 24, 100 << 10, 128, 1024},
    {121, 48, 24, 100 << 10, 128, 1024},
};

uint32_t RoundUp(uint32_t value, uint32_t step) { return (value + step - 1) / step * step; }

uint32_t BlocksByRegisters(uint32_t registers_per_thread, uint32_t warps_per_block) {
  const uint32_t of_warp = RoundUp(registers_per_thread * kWarp, kRegistersStep);
  return kRegisters / kSubPartitions / of_warp * kSubPartitions / warps_per_block;
}

}  // namespace

std::optional<double> TheoreticalOccupancy(const GpuKernel& kernel, uint32_t compute_capability) {
  const auto* limits =
      std::find_if(std::begin(kMultiprocessors), std::end(kMultiprocessors),
                   [&](const Multiprocessor& one) { return one.compute_capability == compute_capability; });
  const uint64_t threads = uint64_t{kernel.block[0]} * kernel.block[1] * kernel.block[2];
  if (limits == std::end(kMultiprocessors) || threads == 0 || threads > 1024) return {};
  if (kernel.registers_per_thread == 0 || kernel.registers_per_thread > kMostRegisters) return {};
  const uint32_t warps_per_block = (static_cast<uint32_t>(threads) + kWarp - 1) / kWarp;
  uint32_t blocks = std::min(limits->blocks, limits->warps / warps_per_block);
  blocks = std::min(blocks, BlocksByRegisters(kernel.registers_per_thread, warps_per_block));
  const uint64_t shared_bytes =
      uint64_t{kernel.static_shared_bytes} + kernel.dynamic_shared_bytes + limits->shared_reserved;
  if (shared_bytes > limits->shared_bytes) return {};
  const uint32_t of_block = RoundUp(static_cast<uint32_t>(shared_bytes), limits->shared_step);
  if (of_block > 0) blocks = std::min(blocks, limits->shared_bytes / of_block);
  if (blocks == 0) return {};  // such a block can't run: a number is wrong
  return static_cast<double>(blocks * warps_per_block) / limits->warps;
}

}  // namespace dlhook::analyzer::gpu
