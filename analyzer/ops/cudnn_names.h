// Names of cuDNN enumerators: lower case, without the enum's common prefix. A number that the headers (cudnn_graph.h,
// cudnn_ops.h, cudnn_cnn.h, cudnn_adv.h of 9.24, which include those of 7 and 8) do not name remains a number.
#pragma once

#include "absl/strings/string_view.h"
#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline ops {

// cudnnConvolutionFwdAlgo_t, …BwdDataAlgo_t, …BwdFilterAlgo_t: "implicit_precomp_gemm", "winograd_nonfused", "algo_1".
std::string ConvolutionAlgorithmName(Direction direction, int32_t algorithm);

// oneDNN's term if it has an equivalent: "pooling_max", "eltwise_relu", "softmax_log", "vanilla_lstm".
std::string PoolingModeName(int32_t mode);     // cudnnPoolingMode_t
std::string ResampleModeName(int32_t mode);    // cudnnResampleMode_t
std::string ActivationModeName(int32_t mode);  // cudnnActivationMode_t, "relu" without a prefix
std::string SoftmaxAlgorithmName(int32_t algorithm);
std::string RnnModeName(int32_t mode);
std::string BatchNormModeName(int32_t mode);  // cudnnBatchNormMode_t
std::string NormKind(int32_t mode);           // cudnnBackendNormMode_t as a kind: "layer_normalization"
std::string OpTensorName(int32_t op);         // cudnnOpTensorOp_t: "binary_add"
std::string ReductionName(int32_t op);        // cudnnReduceTensorOp_t: "reduction_sum"
std::string PointwiseName(int32_t mode);      // cudnnPointwiseMode_t: "relu", "add", "gelu_bwd"

std::string MathTypeName(int32_t math_type);  // cudnnMathType_t; empty for -1
std::string HeuristicModeName(int32_t mode);  // "instant", "b", "fallback", "a"
std::string NumericalNoteName(int32_t note);  // "tensor_core", "winograd_tile_4x4"
std::string BehaviorNoteName(int32_t note);   // "runtime_compilation"
// The cudnnBackendKnobType_t of a name such as "tile_size".
std::optional<int32_t> KnobTypeNumber(absl::string_view name);

}  // namespace dlhook::analyzer::ops
