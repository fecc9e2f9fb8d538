// Names of enumerators of cuBLAS, cuBLASLt and cuDNN: lower case, without the enum's common prefix. What their headers do not name
// (cublas_api.h and cublasLt.h of cuBLAS 13.1; those of cuDNN 9.24, which include 7's and 8's) remains a number.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline ops {

// By number from `first` on, empty: not named. Of -1, which stands for an argument that the function lacks, it is empty.
std::string NameIn(absl::Span<const absl::string_view> names, int64_t number, int64_t first = 0);

// cuBLAS

// cublasGemmAlgo_t: "gemm_default", "gemm_algo7_tensor_op".
std::string GemmAlgorithmName(int32_t algorithm);

constexpr int32_t kFirstComputeType = 64;  // cublasComputeType_t; smaller numbers are cudaDataType, as before CUDA 11
// "32f", "32f_fast_tf32"; "f32".
std::string ComputeTypeName(int32_t compute_type);

// cublasMath_t: "default", "tf32_tensor_op", with its flag "tf32_tensor_op+disallow_reduced_precision_reduction".
std::string MathModeName(int32_t math_mode);

// The operations of a cublasLtEpilogue_t after the product, in order: {"bias", "gelu_aux"}; {} for none.
std::vector<std::string> EpilogueNames(uint32_t epilogue);

// cublasLtMatmulTile_t: "128x64".
std::string LtTileName(uint32_t tile);

// How a matrix of this type is scaled, by its format's common name if it has one: "mxfp8", "nvfp4", "outer"; empty for 0.
std::string LtScaleModeName(uint32_t mode, int bits);

// cublasLtMatmulStages_t: depth along k, and how many stages are in shared memory at once.
constexpr absl::string_view kStages[] = {
    "",      "16x1",  "16x2",   "16x3",    "16x4",    "16x5",    "16x6",     "32x1",     "32x2",     "32x3",
    "32x4",  "32x5",  "32x6",   "64x1",    "64x2",    "64x3",    "64x4",     "64x5",     "64x6",     "128x1",
    "128x2", "128x3", "128x4",  "128x5",   "128x6",   "32x10",   "8x4",      "16x10",    "8x5",      "",
    "",      "8x3",   "8xAUTO", "16xAUTO", "32xAUTO", "64xAUTO", "128xAUTO", "256xAUTO", "768xAUTO",
};

// cublasLtClusterShape_t: thread blocks per cluster.
constexpr absl::string_view kClusters[] = {
    "",       "",       "1x1x1",  "2x1x1",  "4x1x1",  "1x2x1",  "2x2x1",  "4x2x1",  "1x4x1", "2x4x1", "4x4x1",
    "8x1x1",  "1x8x1",  "8x2x1",  "2x8x1",  "16x1x1", "1x16x1", "3x1x1",  "5x1x1",  "6x1x1", "7x1x1", "9x1x1",
    "10x1x1", "11x1x1", "12x1x1", "13x1x1", "14x1x1", "15x1x1", "3x2x1",  "5x2x1",  "6x2x1", "7x2x1", "1x3x1",
    "2x3x1",  "3x3x1",  "4x3x1",  "5x3x1",  "3x4x1",  "1x5x1",  "2x5x1",  "3x5x1",  "1x6x1", "2x6x1", "1x7x1",
    "2x7x1",  "1x9x1",  "1x10x1", "1x11x1", "1x12x1", "1x13x1", "1x14x1", "1x15x1",
};

constexpr absl::string_view kInnerShapes[] = {"", "mma884", "mma1684", "mma1688", "mma16816"};
constexpr absl::string_view kOrders[] = {"col", "row", "col32", "col4_4r2_8c", "col32_2r_4r4"};

// cuDNN

// cudnnConvolutionFwdAlgo_t, …BwdDataAlgo_t, …BwdFilterAlgo_t: "implicit_precomp_gemm", "winograd_nonfused", "algo_1".
std::string ConvolutionAlgorithmName(Direction direction, int32_t algorithm);
std::string NormKind(int32_t mode);       // cudnnBackendNormMode_t as a kind: "layer_normalization"
std::string PointwiseName(int32_t mode);  // cudnnPointwiseMode_t: "relu", "add", "gelu_bwd"

// With oneDNN's terms where it has equivalents.
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
constexpr absl::string_view kOpTensor[] = {"binary_add", "binary_mul",   "binary_min",
                                           "binary_max", "eltwise_sqrt", "eltwise_not"};
constexpr absl::string_view kReductions[] = {"reduction_sum",   "reduction_mul",   "reduction_min",
                                             "reduction_max",   "reduction_amax",  "reduction_mean",
                                             "reduction_norm1", "reduction_norm2", "reduction_mul_no_zeros"};
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

}  // namespace dlhook::analyzer::ops
