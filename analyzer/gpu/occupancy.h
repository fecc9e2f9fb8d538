// How many of a multiprocessor's warps a kernel can fill, by its registers, shared memory and block size alone.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline gpu {

// From 0 to 1. The formula is that of NVIDIA's cuda_occupancy.h (CUDA 13.0), the limits are those of the CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability", with as much shared memory as the
// multiprocessor can have. Not known of compute capabilities other than 7.0 to 12.1, and if the launch did not record
// its block or registers.
std::optional<double> TheoreticalOccupancy(const GpuKernel& kernel, uint32_t compute_capability);

}  // namespace dlhook::analyzer::gpu
