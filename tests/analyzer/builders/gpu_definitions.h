// Definitions of calls of GPU libraries for tests, with the relevant properties as arguments.
#pragma once

#include <cstdint>
#include <string>

#include "proto/op.pb.h"

namespace dlhook::analyzer {

// A call of which only the name is known.
trace::OpDefinition TimedDefinition(const std::string& function, const std::string& family);

// `fields`: fields of trace::Copy, as textproto.
trace::OpDefinition CopyDefinition(const std::string& function, const std::string& fields);

// `kernel`: mangled, or plain for a C name.
trace::OpDefinition LaunchDefinition(const std::string& kernel, int grid_x = 1,
                                     const std::string& function = "cudaLaunchKernel");

// A forward convolution 8x3x32x32 -> 8x16x32x32 with 3x3 kernels and padding 1 through cuDNN's graph API: 2 * 8 * 16 *
// 3 * 9 * 1024 = 7 077 888 FLOPs.
struct PlanCall {
  int number = 1;
  int engine = 0;
  bool pack_seen_before = false;
  int64_t batch = 8;
  int heuristic_mode = 0;
  int failed_before = 0;
  uint64_t build_ticks = 0;
};
trace::OpDefinition PlanDefinition(const PlanCall& call);

// The same convolution through the legacy API with this cudnnConvolutionFwdAlgo_t, and a search for it; `candidates`:
// those of trace::CudnnSearch, as textproto.
trace::OpDefinition LegacyDefinition(int algorithm);
trace::OpDefinition SearchDefinition(bool measured, const std::string& candidates);

// cuBLAS and cuBLASLt, f32, transposes "TN"; `cuda`: fields of trace::CudaGemm, `fields`: fields of trace::Gemm.
trace::OpDefinition CudaGemmDefinition(const std::string& function, int64_t m, int64_t n, int64_t k,
                                       const std::string& cuda, const std::string& fields = "");

}  // namespace dlhook::analyzer
