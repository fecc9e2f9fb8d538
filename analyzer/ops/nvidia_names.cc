#include "analyzer/ops/nvidia_names.h"

namespace dlhook::analyzer::inline ops {
namespace {

// cudaDataType by number, with the names of trace::DataType.
constexpr absl::string_view kDataTypes[] = {
    "f32", "f64",  "f16",  "s8",    "c32",     "c64",     "c16",     "cs8",     "u8",      "cu8",    "s32", "cs32",
    "u32", "cu32", "bf16", "cbf16", "s4",      "cs4",     "u4",      "cu4",     "s16",     "cs16",   "u16", "cu16",
    "s64", "cs64", "u64",  "cu64",  "f8_e4m3", "f8_e5m2", "f8_e8m0", "f6_e2m3", "f6_e3m2", "f4_e2m1"};

// clang-format off
constexpr absl::string_view kComputeTypes[] = {
    "16f", "16f_pedantic", "", "", "32f", "32f_pedantic", "64f", "64f_pedantic", "32i", "32i_pedantic", "32f_fast_16f",
    "32f_fast_16bf", "", "32f_fast_tf32", "32f_emulated_16bfx9", "64f_emulated_fixedpoint"};
// clang-format on

constexpr absl::string_view kMathModes[] = {
    "default", "tensor_op", "pedantic", "tf32_tensor_op",          "fp32_emulated_bf16x9",
    "",        "",          "",         "fp64_emulated_fixedpoint"};
constexpr int32_t kDisallowReducedPrecisionReduction = 16;

// Bits of cublasLtEpilogue_t: 128 marks forward activations that keep what the backward pass needs; the two backward
// ones include it by definition.
constexpr uint32_t kDefault = 1, kRelu = 2, kBias = 4, kDRelu = 8, kBiasGradient = 16, kGelu = 32;
constexpr uint32_t kDGelu = 64, kAux = 128, kBiasGradientA = 256, kBiasGradientB = 512;

// Rows and columns of C that a thread block computes.
using Tile = std::pair<uint32_t, uint32_t>;

// By cublasLtMatmulTile_t - 1. After the first ones come all that are missing of two grids, each up to a number of elements.
std::vector<Tile> MakeTiles() {
  std::vector<Tile> tiles = {{8, 8},     {8, 16},    {16, 8},    {8, 32},    {16, 16},  {32, 8},    {8, 64},
                             {16, 32},   {32, 16},   {64, 8},    {32, 32},   {32, 64},  {64, 32},   {32, 128},
                             {64, 64},   {128, 32},  {64, 128},  {128, 64},  {64, 256}, {128, 128}, {256, 64},
                             {64, 512},  {128, 256}, {256, 128}, {512, 64},  {64, 96},  {96, 64},   {96, 128},
                             {128, 160}, {160, 128}, {192, 128}, {128, 192}, {128, 96}, {32, 256},  {256, 32}};
  const auto add_grid = [&](uint32_t row_step, uint32_t column_step, uint32_t most) {
    for (uint32_t rows = row_step; rows <= 768; rows += row_step) {
      for (uint32_t columns = column_step; columns <= std::min(most / rows, 768u); columns += column_step) {
        if (!absl::c_linear_search(tiles, Tile(rows, columns))) tiles.emplace_back(rows, columns);
      }
    }
  };
  add_grid(8, 64, 48 << 10);
  add_grid(64, 8, 64 << 10);
  for (const uint32_t rows : {256, 512}) {
    for (const uint32_t columns : {512, 1024}) tiles.emplace_back(rows, columns);
  }
  return tiles;
}

constexpr absl::string_view kForwardAlgorithms[] = {
    "implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling", "winograd", "winograd_nonfused"};
constexpr absl::string_view kBackwardDataAlgorithms[] = {"algo_0",     "algo_1",   "fft",
                                                         "fft_tiling", "winograd", "winograd_nonfused"};
constexpr absl::string_view kBackwardFilterAlgorithms[] = {
    "algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling"};
constexpr absl::string_view kNormKinds[] = {"layer_normalization", "instance_normalization", "batch_normalization",
                                            "group_normalization", "rms_normalization",      "ada_layer_normalization"};
constexpr absl::string_view kPointwise[] = {"add", "mul",   "min", "max",  "sqrt", "add_square", "div",        "mod",
                                            "pow", "sub",   "abs", "ceil", "cos",  "exp",        "floor",      "log",
                                            "neg", "rsqrt", "sin", "tan",  "erf",  "identity",   "reciprocal", "atan2"};
constexpr absl::string_view kPointwiseActivations[] = {"relu", "tanh",     "sigmoid", "elu",
                                                       "gelu", "softplus", "swish",   "gelu_approx_tanh"};
constexpr absl::string_view kPointwiseComparisons[] = {"cmp_eq", "cmp_neq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le"};
constexpr absl::string_view kPointwiseLogic[] = {"logical_and", "logical_or", "logical_not"};

}  // namespace

std::string NameIn(absl::Span<const absl::string_view> names, int64_t number, int64_t first) {
  if (number == -1) return "";
  const auto at = static_cast<size_t>(number - first);
  return at < names.size() && !names[at].empty() ? std::string(names[at]) : absl::StrCat(number);
}

std::string GemmAlgorithmName(int32_t algorithm) {
  if (algorithm == -1) return "gemm_default";
  if (algorithm >= 0 && algorithm <= 23) return absl::StrCat("gemm_algo", algorithm);
  if (algorithm == 99) return "gemm_default_tensor_op";
  if (algorithm >= 100 && algorithm <= 115) return absl::StrCat("gemm_algo", algorithm - 100, "_tensor_op");
  if (algorithm == 999) return "gemm_autotune";
  return absl::StrCat(algorithm);
}

std::string ComputeTypeName(int32_t type) {
  return type < kFirstComputeType ? NameIn(kDataTypes, type) : NameIn(kComputeTypes, type, kFirstComputeType);
}

std::string MathModeName(int32_t math_mode) {
  const bool has_flag = math_mode > 0 && (math_mode & kDisallowReducedPrecisionReduction) != 0;
  if (!has_flag) return NameIn(kMathModes, math_mode);
  return absl::StrCat(NameIn(kMathModes, math_mode & ~kDisallowReducedPrecisionReduction),
                      "+disallow_reduced_precision_reduction");
}

std::string LtScaleModeName(uint32_t mode, int bits) {
  switch (mode) {
    case 0:
      return "";
    case 1:  // 16 elements have a factor in UE4M3
      return "nvfp4";
    case 2:  // 32 elements have a factor in UE8M0
      return absl::StrCat("mxfp", bits);
    case 3:
      return "outer";
    case 4:
      return "1x128";
    case 5:
      return "128x128";
    default:
      return absl::StrCat("scale", mode);
  }
}

std::vector<std::string> EpilogueNames(uint32_t epilogue) {
  std::vector<std::string> names;
  uint32_t rest = epilogue & ~kDefault;
  const auto take = [&](uint32_t bits, const char* name) {
    if ((rest & bits) != bits) return false;
    rest &= ~bits;
    names.push_back(name);
    return true;
  };
  take(kBias, "bias");
  take(kDRelu | kAux, "drelu");
  take(kDGelu | kAux, "dgelu");
  if (!take(kRelu | kAux, "relu_aux")) take(kRelu, "relu");
  if (!take(kGelu | kAux, "gelu_aux")) take(kGelu, "gelu");
  take(kBiasGradient, "bgrad");
  take(kBiasGradientA, "bgrada");
  take(kBiasGradientB, "bgradb");
  if (rest != 0) names.push_back(absl::StrCat("epilogue_", rest));
  return names;
}

std::string LtTileName(uint32_t tile) {
  static const auto& tiles = *new std::vector<Tile>(MakeTiles());
  if (tile == 0 || tile > tiles.size()) return absl::StrCat(tile);
  return absl::StrCat(tiles[tile - 1].first, "x", tiles[tile - 1].second);
}

std::string ConvolutionAlgorithmName(Direction direction, int32_t algorithm) {
  if (direction == Direction::kForward) return NameIn(kForwardAlgorithms, algorithm);
  if (direction == Direction::kBackwardData) return NameIn(kBackwardDataAlgorithms, algorithm);
  if (direction == Direction::kBackwardWeights) return NameIn(kBackwardFilterAlgorithms, algorithm);
  return absl::StrCat(algorithm);
}

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

}  // namespace dlhook::analyzer::ops
