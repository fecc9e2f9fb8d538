// Definitions of calls of GPU libraries: see gpu_definitions.h.
#include "tests/analyzer/builders/gpu_definitions.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr char kTensors[] = R"pb(
  tensor {
    role: X
    type: F32
    dim: [ $N, 3, 32, 32 ]
    stride: [ 3072, 1024, 32, 1 ]
    uid: 120
  }
  tensor {
    role: W
    type: F32
    dim: [ 16, 3, 3, 3 ]
    stride: [ 27, 9, 3, 1 ]
    uid: 119
  }
  tensor {
    role: Y
    type: F32
    dim: [ $N, 16, 32, 32 ]
    stride: [ 16384, 1024, 32, 1 ]
    uid: 121
  }
  pad: [ 1, 1 ]
  stride: [ 1, 1 ]
  dilation: [ 1, 1 ]
  groups: 1
  convolution_mode: 1
  compute_type: F32
)pb";

std::string Tensors(int64_t batch) { return absl::StrReplaceAll(kTensors, {{"$N", absl::StrCat(batch)}}); }

}  // namespace

trace::OpDefinition TimedDefinition(const std::string& function, const std::string& family) {
  return Definition(absl::StrCat("function: '", function, "' family: '", family, "' time_source: CLOCK_TICKS"));
}

trace::OpDefinition CopyDefinition(const std::string& function, const std::string& fields) {
  return Definition(
      absl::StrCat("function: '", function, "' family: 'cuda_copy' time_source: CLOCK_TICKS copy { ", fields, " }"));
}

trace::OpDefinition LaunchDefinition(const std::string& kernel, int grid_x, const std::string& function) {
  return Definition(absl::StrCat("function: '", function,
                                 "' family: 'cuda_launch' time_source: CLOCK_TICKS launch { "
                                 "kernel: '",
                                 kernel, "' grid_x: ", grid_x,
                                 " grid_y: 1 grid_z: 1 block_x: 128 block_y: 1 block_z: 1 }"));
}

trace::OpDefinition PlanDefinition(const PlanCall& call) {
  return Definition(
      absl::StrCat("function: 'cudnnBackendExecute' family: 'cudnn' time_source: CLOCK_TICKS cudnn { "
                   "operation: 'convolution_forward' ",
                   Tensors(call.batch), " workspace_bytes: ", 1024 * call.engine,
                   " algorithm: -1 math_type: -1 mode: -1 pack_seen_before: ", call.pack_seen_before ? "true" : "false",
                   " plan { node { operation: 'convolution_forward' input_uid: [ 120, 119 ] output_uid: 121 "
                   "pad: [ 1, 1 ] post_pad: [ 1, 1 ] stride: [ 1, 1 ] dilation: [ 1, 1 ] compute_type: F32 } "
                   "engine: ",
                   call.engine, " knob { type: 2 value: ", call.engine + 3,
                   " } chooser: HEURISTIC heuristic_mode: ", call.heuristic_mode, " heuristic_rank: ", call.number - 1,
                   " heuristic_requested: 8 heuristic_results: 3 failed_before: ", call.failed_before,
                   " build_ticks: ", call.build_ticks, " number: ", call.number, " } }"));
}

trace::OpDefinition LegacyDefinition(int algorithm) {
  return Definition(
      absl::StrCat("function: 'cudnnConvolutionForward' family: 'cudnn' time_source: CLOCK_TICKS "
                   "address_count: 3 cudnn { operation: 'convolution_forward' ",
                   Tensors(8), " workspace_bytes: 65536 algorithm: ", algorithm, " math_type: 0 mode: -1 }"));
}

trace::OpDefinition SearchDefinition(bool measured, const std::string& candidates) {
  return Definition(absl::StrCat(
      "function: '", measured ? "cudnnFindConvolutionForwardAlgorithm" : "cudnnGetConvolutionForwardAlgorithm_v7",
      "' family: 'cudnn' time_source: CLOCK_TICKS cudnn_search { problem { operation: "
      "'convolution_forward' ",
      Tensors(8), " algorithm: -1 math_type: 0 mode: -1 } measured: ", measured ? "true" : "false", " requested: 8 ",
      candidates, " }"));
}

trace::OpDefinition CudaGemmDefinition(const std::string& function, int64_t m, int64_t n, int64_t k,
                                       const std::string& cuda, const std::string& fields) {
  const bool lt = function.rfind("cublasLt", 0) == 0;
  return Definition(
      absl::StrCat("function: '", function, "' family: '", lt ? "cublaslt" : "cublas",
                   "' time_source: CLOCK_TICKS address_count: 3 gemm { a_type: F32 b_type: F32 c_type: F32 m: ", m,
                   " n: ", n, " k: ", k, " trans_a: 'T' trans_b: 'N' lda: ", k, " ldb: ", k, " ldc: ", m, " batch: 1 ",
                   fields, " cuda { lt: ", lt ? "true" : "false", " ", cuda, " } }"));
}

}  // namespace dlhook::analyzer
