#include "analyzer/ops/cudnn_names.h"

#include <cstddef>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline ops {
namespace {

template <size_t N>
std::string NameOrNumber(const absl::string_view (&names)[N], int32_t number) {
  if (number < 0 || number >= static_cast<int32_t>(N)) return absl::StrCat(number);
  return std::string(names[number]);
}

constexpr absl::string_view kForwardAlgorithms[] = {
    "implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling", "winograd", "winograd_nonfused"};
constexpr absl::string_view kBackwardDataAlgorithms[] = {"algo_0",     "algo_1",   "fft",
                                                         "fft_tiling", "winograd", "winograd_nonfused"};
constexpr absl::string_view kBackwardFilterAlgorithms[] = {
    "algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling"};

constexpr absl::string_view kPooling[] = {"pooling_max", "pooling_avg_include_padding", "pooling_avg_exclude_padding",
                                          "pooling_max_deterministic"};
constexpr absl::string_view kResample[] = {"resampling_nearest", "resampling_linear", "pooling_avg_include_padding",
                                           "pooling_max", "pooling_avg_exclude_padding"};
// In oneDNN's terms the sigmoid is logistic, and ReLU with an upper bound is clip.
constexpr absl::string_view kActivation[] = {"logistic", "relu", "tanh", "clip", "elu", "identity", "swish"};
constexpr absl::string_view kSoftmax[] = {"softmax_fast", "softmax_accurate", "softmax_log"};
// cuDNN's GRU applies the reset gate after the matrix product, which oneDNN calls lbr_gru.
constexpr absl::string_view kRnn[] = {"vanilla_rnn_relu", "vanilla_rnn_tanh", "vanilla_lstm", "lbr_gru"};
constexpr absl::string_view kBatchNorm[] = {"per_activation", "spatial", "spatial_persistent"};
constexpr absl::string_view kNormKinds[] = {"layer_normalization", "instance_normalization", "batch_normalization",
                                            "group_normalization", "rms_normalization",      "ada_layer_normalization"};
constexpr absl::string_view kOpTensor[] = {"binary_add", "binary_mul",   "binary_min",
                                           "binary_max", "eltwise_sqrt", "eltwise_not"};
constexpr absl::string_view kReductions[] = {"reduction_sum",   "reduction_mul",   "reduction_min",
                                             "reduction_max",   "reduction_amax",  "reduction_mean",
                                             "reduction_norm1", "reduction_norm2", "reduction_mul_no_zeros"};

constexpr absl::string_view kPointwise[] = {"add", "mul",   "min", "max",  "sqrt", "add_square", "div",        "mod",
                                            "pow", "sub",   "abs", "ceil", "cos",  "exp",        "floor",      "log",
                                            "neg", "rsqrt", "sin", "tan",  "erf",  "identity",   "reciprocal", "atan2"};
constexpr absl::string_view kPointwiseActivations[] = {"relu", "tanh",     "sigmoid", "elu",
                                                       "gelu", "softplus", "swish",   "gelu_approx_tanh"};
constexpr absl::string_view kPointwiseComparisons[] = {"cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le"};
constexpr absl::string_view kPointwiseLogic[] = {"logical_and", "logical_or", "logical_not"};

constexpr absl::string_view kMathTypes[] = {"default", "tensor_op", "tensor_op_allow_conversion", "fma"};
constexpr absl::string_view kHeuristicModes[] = {"instant", "b", "fallback", "a"};
// clang-format off
constexpr absl::string_view kNumericalNotes[] = {
    "tensor_core",       "down_convert_inputs", "reduced_precision_reduction", "fft",
    "nondeterministic",  "winograd",            "winograd_tile_4x4",           "winograd_tile_6x6",
    "winograd_tile_13x13", "strict_nan_prop"};
constexpr absl::string_view kKnobTypes[] = {
    "split_k", "swizzle", "tile_size", "use_tex", "edge", "kblock", "ldga", "ldgb", "chunk_k",
    "split_h", "wino_tile", "multiply", "split_k_buf", "tilek", "stages", "reduction_mode",
    "cta_split_k_mode", "split_k_slc", "idx_mode", "sliced", "split_rs", "singlebuffer", "ldgc",
    "specfilt", "kernel_cfg", "workspace", "tile_cga", "tile_cga_m", "tile_cga_n", "block_size",
    "occupancy", "array_size_per_thread", "num_c_per_block", "split_cols", "tile_rows",
    "tile_cols", "load_size", "cta_count", "stream_k", "split_p_slc", "tile_m", "tile_n",
    "warp_spec_cfg", "swap_ab", "input_tma_enable", "output_tma_enable"};
constexpr absl::string_view kBehaviorNotes[] = {
    "runtime_compilation", "requires_filter_int8x32_reorder", "requires_bias_int8x32_reorder",
    "supports_cuda_graph_native_api", "cublaslt_dependency"};
// clang-format on

}  // namespace

std::string ConvolutionAlgorithmName(Direction direction, int32_t algorithm) {
  if (direction == Direction::kForward) return NameOrNumber(kForwardAlgorithms, algorithm);
  if (direction == Direction::kBackwardData) return NameOrNumber(kBackwardDataAlgorithms, algorithm);
  if (direction == Direction::kBackwardWeights) return NameOrNumber(kBackwardFilterAlgorithms, algorithm);
  return absl::StrCat(algorithm);
}

std::string PoolingModeName(int32_t mode) { return NameOrNumber(kPooling, mode); }
std::string ResampleModeName(int32_t mode) { return NameOrNumber(kResample, mode); }
std::string ActivationModeName(int32_t mode) { return NameOrNumber(kActivation, mode); }
std::string SoftmaxAlgorithmName(int32_t mode) { return NameOrNumber(kSoftmax, mode); }
std::string RnnModeName(int32_t mode) { return NameOrNumber(kRnn, mode); }
std::string BatchNormModeName(int32_t mode) { return NameOrNumber(kBatchNorm, mode); }
std::string OpTensorName(int32_t op) { return NameOrNumber(kOpTensor, op); }
std::string ReductionName(int32_t op) { return NameOrNumber(kReductions, op); }

std::string NormKind(int32_t mode) {
  const bool is_known = mode >= 0 && mode < static_cast<int32_t>(std::size(kNormKinds));
  return is_known ? std::string(kNormKinds[mode]) : "normalization";
}

std::string PointwiseName(int32_t mode) {
  const auto name_from = [&](const auto& names, int32_t first, absl::string_view suffix) {
    const int32_t place = mode - first;
    const bool is_known = place >= 0 && place < static_cast<int32_t>(std::size(names));
    return is_known ? absl::StrCat(names[place], suffix) : absl::StrCat("pointwise_", mode);
  };
  if (mode == 501) return "gen_index";
  if (mode == 601) return "binary_select";
  if (mode >= 400) return name_from(kPointwiseLogic, 400, "");
  if (mode >= 300) return name_from(kPointwiseComparisons, 300, "");
  if (mode >= 200) return name_from(kPointwiseActivations, 200, "_bwd");
  if (mode >= 100) return name_from(kPointwiseActivations, 100, "");
  return name_from(kPointwise, 0, "");
}

std::string MathTypeName(int32_t type) { return type == -1 ? "" : NameOrNumber(kMathTypes, type); }
std::string HeuristicModeName(int32_t mode) { return NameOrNumber(kHeuristicModes, mode); }
std::string NumericalNoteName(int32_t note) { return NameOrNumber(kNumericalNotes, note); }

std::optional<int32_t> KnobTypeNumber(absl::string_view name) {
  const auto place = absl::c_find(kKnobTypes, name);
  if (place == std::end(kKnobTypes)) return std::nullopt;
  return static_cast<int32_t>(place - std::begin(kKnobTypes));
}

std::string BehaviorNoteName(int32_t note) { return NameOrNumber(kBehaviorNotes, note); }

}  // namespace dlhook::analyzer::ops
