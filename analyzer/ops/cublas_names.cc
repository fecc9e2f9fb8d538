// See cublas_names.h; the configuration of cuBLASLt's algorithms is in cublaslt_names.cc.
#include "analyzer/ops/cublas_names.h"

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

}  // namespace

std::string GemmAlgorithmName(int32_t algorithm) {
  if (algorithm == -1) return "gemm_default";
  if (algorithm >= 0 && algorithm <= 23) return absl::StrCat("gemm_algo", algorithm);
  if (algorithm == 99) return "gemm_default_tensor_op";
  if (algorithm >= 100 && algorithm <= 115) {
    return absl::StrCat("gemm_algo", algorithm - 100, "_tensor_op");
  }
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

}  // namespace dlhook::analyzer::ops
