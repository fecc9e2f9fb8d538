// Offsets of the fields of cudaDeviceProp that the fakes fill. ../abi/device_properties_check.cc compares them with the
// toolkit's header if one is installed; CI has none.
#pragma once

#include <cstddef>

namespace device_properties {

// The same since CUDA 10.0.
constexpr size_t kTotalMemory = 288, kSharedPerBlock = 296, kRegistersPerBlock = 304, kWarp = 308, kPitch = 312,
                 kThreadsPerBlock = 320, kBlockSizes = 324, kGridSizes = 336, kConstantMemory = 352, kMajor = 360,
                 kMinor = 364, kTextureAlignment = 368;

// Of CUDA 13.
constexpr size_t kSize13 = 1008;
constexpr size_t kProcessors13 = 384, kConcurrentKernels13 = 560, kBus13 = 568, kUnifiedAddressing13 = 588,
                 kBusWidth13 = 592, kL2Cache13 = 596, kThreadsPerProcessor13 = 604, kStreamPriorities13 = 608,
                 kSharedPerProcessor13 = 624, kRegistersPerProcessor13 = 632, kCooperativeLaunch13 = 668,
                 kSharedPerBlockOptIn13 = 672, kBlocksPerProcessor13 = 688, kMemoryPools13 = 720,
                 kClusterLaunch13 = 748;

// Before CUDA 13; only the fields up to multiProcessorCount are filled.
constexpr size_t kProcessors12 = 388, kFilled12 = 392;

}  // namespace device_properties
