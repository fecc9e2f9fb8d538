#include "analyzer/ops/cublas_names.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline ops {
namespace {

// cudaDataType by number, with the names of trace::DataType.
constexpr absl::string_view kDataTypes[] = {
    "f32", "f64",  "f16",  "s8",    "c32",     "c64",     "c16",     "cs8",     "u8",      "cu8",    "s32", "cs32",
    "u32", "cu32", "bf16", "cbf16", "s4",      "cs4",     "u4",      "cu4",     "s16",     "cs16",   "u16", "cu16",
    "s64", "cs64", "u64",  "cu64",  "f8_e4m3", "f8_e5m2", "f8_e8m0", "f6_e2m3", "f6_e3m2", "f4_e2m1"};

struct Named {
  int32_t number;
  absl::string_view name;
};

constexpr Named kComputeTypes[] = {{64, "16f"},
                                   {65, "16f_pedantic"},
                                   {68, "32f"},
                                   {69, "32f_pedantic"},
                                   {70, "64f"},
                                   {71, "64f_pedantic"},
                                   {72, "32i"},
                                   {73, "32i_pedantic"},
                                   {74, "32f_fast_16f"},
                                   {75, "32f_fast_16bf"},
                                   {77, "32f_fast_tf32"},
                                   {78, "32f_emulated_16bfx9"},
                                   {79, "64f_emulated_fixedpoint"}};

constexpr Named kMathModes[] = {{0, "default"},
                                {1, "tensor_op"},
                                {2, "pedantic"},
                                {3, "tf32_tensor_op"},
                                {4, "fp32_emulated_bf16x9"},
                                {8, "fp64_emulated_fixedpoint"}};
constexpr int32_t kDisallowReducedPrecisionReduction = 16;

template <size_t N>
std::string NameOf(const Named (&names)[N], int32_t number) {
  for (const Named& named : names) {
    if (named.number == number) return std::string(named.name);
  }
  return absl::StrCat(number);
}

// Bits of cublasLtEpilogue_t: 128 marks forward activations that keep what the backward pass needs; the two backward
// ones include it by definition.
constexpr uint32_t kDefault = 1, kRelu = 2, kBias = 4, kDRelu = 8, kBiasGradient = 16, kGelu = 32;
constexpr uint32_t kDGelu = 64, kAux = 128, kBiasGradientA = 256, kBiasGradientB = 512;

// cublasLtMatmulTile_t: rows and columns of C that a thread block computes, from 1 (8x8).
constexpr uint16_t kTiles[][2] = {
    {8, 8},     {8, 16},     {16, 8},    {8, 32},     {16, 16},   {32, 8},    {8, 64},    {16, 32},   {32, 16},
    {64, 8},    {32, 32},    {32, 64},   {64, 32},    {32, 128},  {64, 64},   {128, 32},  {64, 128},  {128, 64},
    {64, 256},  {128, 128},  {256, 64},  {64, 512},   {128, 256}, {256, 128}, {512, 64},  {64, 96},   {96, 64},
    {96, 128},  {128, 160},  {160, 128}, {192, 128},  {128, 192}, {128, 96},  {32, 256},  {256, 32},  {8, 128},
    {8, 192},   {8, 256},    {8, 320},   {8, 384},    {8, 448},   {8, 512},   {8, 576},   {8, 640},   {8, 704},
    {8, 768},   {16, 64},    {16, 128},  {16, 192},   {16, 256},  {16, 320},  {16, 384},  {16, 448},  {16, 512},
    {16, 576},  {16, 640},   {16, 704},  {16, 768},   {24, 64},   {24, 128},  {24, 192},  {24, 256},  {24, 320},
    {24, 384},  {24, 448},   {24, 512},  {24, 576},   {24, 640},  {24, 704},  {24, 768},  {32, 192},  {32, 320},
    {32, 384},  {32, 448},   {32, 512},  {32, 576},   {32, 640},  {32, 704},  {32, 768},  {40, 64},   {40, 128},
    {40, 192},  {40, 256},   {40, 320},  {40, 384},   {40, 448},  {40, 512},  {40, 576},  {40, 640},  {40, 704},
    {40, 768},  {48, 64},    {48, 128},  {48, 192},   {48, 256},  {48, 320},  {48, 384},  {48, 448},  {48, 512},
    {48, 576},  {48, 640},   {48, 704},  {48, 768},   {56, 64},   {56, 128},  {56, 192},  {56, 256},  {56, 320},
    {56, 384},  {56, 448},   {56, 512},  {56, 576},   {56, 640},  {56, 704},  {56, 768},  {64, 192},  {64, 320},
    {64, 384},  {64, 448},   {64, 576},  {64, 640},   {64, 704},  {64, 768},  {72, 64},   {72, 128},  {72, 192},
    {72, 256},  {72, 320},   {72, 384},  {72, 448},   {72, 512},  {72, 576},  {72, 640},  {80, 64},   {80, 128},
    {80, 192},  {80, 256},   {80, 320},  {80, 384},   {80, 448},  {80, 512},  {80, 576},  {88, 64},   {88, 128},
    {88, 192},  {88, 256},   {88, 320},  {88, 384},   {88, 448},  {88, 512},  {96, 192},  {96, 256},  {96, 320},
    {96, 384},  {96, 448},   {96, 512},  {104, 64},   {104, 128}, {104, 192}, {104, 256}, {104, 320}, {104, 384},
    {104, 448}, {112, 64},   {112, 128}, {112, 192},  {112, 256}, {112, 320}, {112, 384}, {120, 64},  {120, 128},
    {120, 192}, {120, 256},  {120, 320}, {120, 384},  {128, 320}, {128, 384}, {136, 64},  {136, 128}, {136, 192},
    {136, 256}, {136, 320},  {144, 64},  {144, 128},  {144, 192}, {144, 256}, {144, 320}, {152, 64},  {152, 128},
    {152, 192}, {152, 256},  {152, 320}, {160, 64},   {160, 192}, {160, 256}, {168, 64},  {168, 128}, {168, 192},
    {168, 256}, {176, 64},   {176, 128}, {176, 192},  {176, 256}, {184, 64},  {184, 128}, {184, 192}, {184, 256},
    {192, 64},  {192, 192},  {192, 256}, {200, 64},   {200, 128}, {200, 192}, {208, 64},  {208, 128}, {208, 192},
    {216, 64},  {216, 128},  {216, 192}, {224, 64},   {224, 128}, {224, 192}, {232, 64},  {232, 128}, {232, 192},
    {240, 64},  {240, 128},  {240, 192}, {248, 64},   {248, 128}, {248, 192}, {256, 192}, {264, 64},  {264, 128},
    {272, 64},  {272, 128},  {280, 64},  {280, 128},  {288, 64},  {288, 128}, {296, 64},  {296, 128}, {304, 64},
    {304, 128}, {312, 64},   {312, 128}, {320, 64},   {320, 128}, {328, 64},  {328, 128}, {336, 64},  {336, 128},
    {344, 64},  {344, 128},  {352, 64},  {352, 128},  {360, 64},  {360, 128}, {368, 64},  {368, 128}, {376, 64},
    {376, 128}, {384, 64},   {384, 128}, {392, 64},   {400, 64},  {408, 64},  {416, 64},  {424, 64},  {432, 64},
    {440, 64},  {448, 64},   {456, 64},  {464, 64},   {472, 64},  {480, 64},  {488, 64},  {496, 64},  {504, 64},
    {520, 64},  {528, 64},   {536, 64},  {544, 64},   {552, 64},  {560, 64},  {568, 64},  {576, 64},  {584, 64},
    {592, 64},  {600, 64},   {608, 64},  {616, 64},   {624, 64},  {632, 64},  {640, 64},  {648, 64},  {656, 64},
    {664, 64},  {672, 64},   {680, 64},  {688, 64},   {696, 64},  {704, 64},  {712, 64},  {720, 64},  {728, 64},
    {736, 64},  {744, 64},   {752, 64},  {760, 64},   {768, 64},  {64, 16},   {64, 24},   {64, 40},   {64, 48},
    {64, 56},   {64, 72},    {64, 80},   {64, 88},    {64, 104},  {64, 112},  {64, 120},  {64, 136},  {64, 144},
    {64, 152},  {64, 160},   {64, 168},  {64, 176},   {64, 184},  {64, 200},  {64, 208},  {64, 216},  {64, 224},
    {64, 232},  {64, 240},   {64, 248},  {64, 264},   {64, 272},  {64, 280},  {64, 288},  {64, 296},  {64, 304},
    {64, 312},  {64, 328},   {64, 336},  {64, 344},   {64, 352},  {64, 360},  {64, 368},  {64, 376},  {64, 392},
    {64, 400},  {64, 408},   {64, 416},  {64, 424},   {64, 432},  {64, 440},  {64, 456},  {64, 464},  {64, 472},
    {64, 480},  {64, 488},   {64, 496},  {64, 504},   {64, 520},  {64, 528},  {64, 536},  {64, 544},  {64, 552},
    {64, 560},  {64, 568},   {64, 584},  {64, 592},   {64, 600},  {64, 608},  {64, 616},  {64, 624},  {64, 632},
    {64, 648},  {64, 656},   {64, 664},  {64, 672},   {64, 680},  {64, 688},  {64, 696},  {64, 712},  {64, 720},
    {64, 728},  {64, 736},   {64, 744},  {64, 752},   {64, 760},  {128, 8},   {128, 16},  {128, 24},  {128, 40},
    {128, 48},  {128, 56},   {128, 72},  {128, 80},   {128, 88},  {128, 104}, {128, 112}, {128, 120}, {128, 136},
    {128, 144}, {128, 152},  {128, 168}, {128, 176},  {128, 184}, {128, 200}, {128, 208}, {128, 216}, {128, 224},
    {128, 232}, {128, 240},  {128, 248}, {128, 264},  {128, 272}, {128, 280}, {128, 288}, {128, 296}, {128, 304},
    {128, 312}, {128, 328},  {128, 336}, {128, 344},  {128, 352}, {128, 360}, {128, 368}, {128, 376}, {128, 392},
    {128, 400}, {128, 408},  {128, 416}, {128, 424},  {128, 432}, {128, 440}, {128, 448}, {128, 456}, {128, 464},
    {128, 472}, {128, 480},  {128, 488}, {128, 496},  {128, 504}, {128, 512}, {192, 8},   {192, 16},  {192, 24},
    {192, 32},  {192, 40},   {192, 48},  {192, 56},   {192, 72},  {192, 80},  {192, 88},  {192, 96},  {192, 104},
    {192, 112}, {192, 120},  {192, 136}, {192, 144},  {192, 152}, {192, 160}, {192, 168}, {192, 176}, {192, 184},
    {192, 200}, {192, 208},  {192, 216}, {192, 224},  {192, 232}, {192, 240}, {192, 248}, {192, 264}, {192, 272},
    {192, 280}, {192, 288},  {192, 296}, {192, 304},  {192, 312}, {192, 320}, {192, 328}, {192, 336}, {256, 8},
    {256, 16},  {256, 24},   {256, 40},  {256, 48},   {256, 56},  {256, 72},  {256, 80},  {256, 88},  {256, 96},
    {256, 104}, {256, 112},  {256, 120}, {256, 136},  {256, 144}, {256, 152}, {256, 160}, {256, 168}, {256, 176},
    {256, 184}, {256, 200},  {256, 208}, {256, 216},  {256, 224}, {256, 232}, {256, 240}, {256, 248}, {256, 256},
    {320, 8},   {320, 16},   {320, 24},  {320, 32},   {320, 40},  {320, 48},  {320, 56},  {320, 72},  {320, 80},
    {320, 88},  {320, 96},   {320, 104}, {320, 112},  {320, 120}, {320, 136}, {320, 144}, {320, 152}, {320, 160},
    {320, 168}, {320, 176},  {320, 184}, {320, 192},  {320, 200}, {384, 8},   {384, 16},  {384, 24},  {384, 32},
    {384, 40},  {384, 48},   {384, 56},  {384, 72},   {384, 80},  {384, 88},  {384, 96},  {384, 104}, {384, 112},
    {384, 120}, {384, 136},  {384, 144}, {384, 152},  {384, 160}, {384, 168}, {448, 8},   {448, 16},  {448, 24},
    {448, 32},  {448, 40},   {448, 48},  {448, 56},   {448, 72},  {448, 80},  {448, 88},  {448, 96},  {448, 104},
    {448, 112}, {448, 120},  {448, 128}, {448, 136},  {448, 144}, {512, 8},   {512, 16},  {512, 24},  {512, 32},
    {512, 40},  {512, 48},   {512, 56},  {512, 72},   {512, 80},  {512, 88},  {512, 96},  {512, 104}, {512, 112},
    {512, 120}, {512, 128},  {576, 8},   {576, 16},   {576, 24},  {576, 32},  {576, 40},  {576, 48},  {576, 56},
    {576, 72},  {576, 80},   {576, 88},  {576, 96},   {576, 104}, {576, 112}, {640, 8},   {640, 16},  {640, 24},
    {640, 32},  {640, 40},   {640, 48},  {640, 56},   {640, 72},  {640, 80},  {640, 88},  {640, 96},  {704, 8},
    {704, 16},  {704, 24},   {704, 32},  {704, 40},   {704, 48},  {704, 56},  {704, 72},  {704, 80},  {704, 88},
    {768, 8},   {768, 16},   {768, 24},  {768, 32},   {768, 40},  {768, 48},  {768, 56},  {768, 72},  {768, 80},
    {256, 512}, {256, 1024}, {512, 512}, {512, 1024},
};

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

template <size_t N>
std::string NameOrNumber(const absl::string_view (&names)[N], uint32_t number) {
  return number < N && !names[number].empty() ? std::string(names[number]) : absl::StrCat(number);
}

}  // namespace

std::string GemmAlgorithmName(int32_t algorithm) {
  if (algorithm == -1) return "gemm_default";
  if (algorithm >= 0 && algorithm <= 23) return absl::StrCat("gemm_algo", algorithm);
  if (algorithm == 99) return "gemm_default_tensor_op";
  if (algorithm >= 100 && algorithm <= 115) return absl::StrCat("gemm_algo", algorithm - 100, "_tensor_op");
  if (algorithm == 999) return "gemm_autotune";
  return absl::StrCat(algorithm);
}

std::string ComputeTypeName(int32_t compute_type) {
  if (compute_type == -1) return "";
  if (compute_type >= 0 && compute_type < static_cast<int32_t>(std::size(kDataTypes))) {
    return std::string(kDataTypes[compute_type]);
  }
  return NameOf(kComputeTypes, compute_type);
}

std::string MathModeName(int32_t math_mode) {
  if (math_mode == -1) return "";
  const bool has_flag = math_mode > 0 && (math_mode & kDisallowReducedPrecisionReduction) != 0;
  if (!has_flag) return NameOf(kMathModes, math_mode);
  return absl::StrCat(NameOf(kMathModes, math_mode & ~kDisallowReducedPrecisionReduction),
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

// Names of the enumerators in a cuBLASLt algorithm configuration, by number: cublasLt.h of cuBLAS 13.1 (earlier
// releases have fewer, with the same numbers).
std::string LtTileName(uint32_t tile) {
  if (tile == 0 || tile > std::size(kTiles)) return absl::StrCat(tile);
  return absl::StrCat(kTiles[tile - 1][0], "x", kTiles[tile - 1][1]);
}

std::string LtStagesName(uint32_t stages) { return NameOrNumber(kStages, stages); }
std::string LtClusterName(uint32_t cluster) { return NameOrNumber(kClusters, cluster); }
std::string LtInnerShapeName(uint32_t shape) { return NameOrNumber(kInnerShapes, shape); }
std::string LtOrderName(uint32_t order) { return NameOrNumber(kOrders, order); }

}  // namespace dlhook::analyzer::ops
