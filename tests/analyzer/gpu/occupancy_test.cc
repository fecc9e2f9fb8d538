// Theoretical occupancy. Expected numbers: NVIDIA's own cuda_occupancy.h of CUDA 13.0 for the same inputs.
#include <gtest/gtest.h>

#include "analyzer/gpu/gpu_division.h"

namespace dlhook::analyzer {
namespace occupancy_test {

GpuKernel Kernel(uint32_t threads, uint32_t registers, uint32_t shared) {
  GpuKernel kernel;
  kernel.block[0] = threads;
  kernel.block[1] = kernel.block[2] = 1;
  kernel.registers_per_thread = registers;
  kernel.dynamic_shared_bytes = shared;
  return kernel;
}

TEST(OccupancyTest, IsWhatNvidiasCalculatorSays) {
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(256, 32, 0), 90), 1.0);
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(256, 128, 0), 90), 0.25);    // registers
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(1024, 64, 0), 80), 0.5);     // registers, a large block
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(96, 40, 20000), 86), 0.25);  // shared memory
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(128, 64, 16384), 75), 0.5);
  EXPECT_DOUBLE_EQ(*TheoreticalOccupancy(Kernel(128, 96, 100 << 10), 90), 0.125);
}

TEST(OccupancyTest, IsNotKnownWhereANumberIsMissing) {
  EXPECT_FALSE(TheoreticalOccupancy(Kernel(256, 32, 0), 61).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Kernel(0, 32, 0), 90).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Kernel(256, 0, 0), 90).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Kernel(256, 32, 400 << 10), 90).has_value());
  for (uint32_t registers : {256u, 1u << 27, ~0u}) {  // possible in a damaged trace: 32 times 2^27 overflows to 0
    EXPECT_FALSE(TheoreticalOccupancy(Kernel(256, registers, 0), 90).has_value());
  }
}

}  // namespace occupancy_test
}  // namespace dlhook::analyzer
