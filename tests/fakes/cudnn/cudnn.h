// Shared by the two halves of the fake libcudnn: the handle and the cost of a convolution.
#pragma once

#include <cstdint>

#include "fake.h"

struct CudnnHandle {
  void* stream = nullptr;
};

inline CudnnHandle* CudnnHandleOf(void* handle) { return static_cast<CudnnHandle*>(handle); }

constexpr char kConvolutionKernel[] =
    "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
    "warpgroupsize1x1x1_execute_kernel";

// The kernels of a convolution (inner_launches.cc), including layout changes around it unless it is channels-last.
void LaunchConvolution(void* handle, int64_t nanoseconds, bool channels_last);

// NAME=4x1x28x28 in the log, or NAME=4x1x28x28:784x784x28x1 with strides.
void NoteNumbers(const char* name, const std::vector<int64_t>& numbers, const std::vector<int64_t>& strides);

// 4000 ns + 1 per 10 000 operations, times the scenario's factor for the algorithm or engine.
inline int64_t ConvolutionTime(int64_t output_elements, int64_t filter_elements_per_output, int percent) {
  return fake::Slowed((4000 + 2 * output_elements * filter_elements_per_output / 10000) * percent / 100);
}
