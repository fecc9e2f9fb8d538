// The formulas and their sources are in convolution_cost.h.
#include "analyzer/peaks/convolution_cost.h"

#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline peaks {
namespace {

constexpr double kFftTile = 32;

double Product(const std::array<double, 3>& sizes) { return sizes[0] * sizes[1] * sizes[2]; }
double Smallest(const std::array<double, 3>& sizes) { return *absl::c_min_element(sizes); }

double DirectFlops(const ConvolutionShape& shape) {
  return 2 * shape.images * shape.outputs * (shape.inputs / shape.groups) * Product(shape.out) * Product(shape.kernel);
}

bool IsFlat(const ConvolutionShape& shape) {  // in two dimensions, each point of the input once for each of the kernel
  return shape.out[0] == 1 && shape.kernel[0] == 1 && Product(shape.stride) == 1 &&
         shape.dilation == std::array<double, 3>{0, 0, 0};
}

// Beta, gamma and delta: operations that transform one tile of the data, the filter and the result.
struct Transforms {
  double tile, data, filter, result;
};
constexpr Transforms kWinograd2 = {4, 32, 28, 24};
constexpr Transforms kWinograd4 = {6, 156, 72, 100};

// Tiles of `tile` points in each direction, of which `useful` are results.
double TilesOf(const ConvolutionShape& shape, double useful_height, double useful_width) {
  return shape.images * std::ceil(shape.out[1] / useful_height) * std::ceil(shape.out[2] / useful_width);
}

double Transformed(const ConvolutionShape& shape, double tiles, double data, double filter, double result) {
  const double filters = shape.outputs * shape.inputs / shape.groups;
  return shape.inputs * tiles * data + filters * filter + shape.outputs * tiles * result;
}

std::optional<ConvolutionCost> WinogradCost(const ConvolutionShape& shape, const Transforms& of) {
  if (!IsFlat(shape) || shape.is_for_weights || shape.kernel[1] != 3 || shape.kernel[2] != 3) return std::nullopt;
  const double tiles = TilesOf(shape, of.tile - 2, of.tile - 2), points = of.tile * of.tile;
  const double products = 2 * shape.outputs * (shape.inputs / shape.groups) * tiles * points;
  return ConvolutionCost{products + Transformed(shape, tiles, of.data, of.filter, of.result),
                         2 * Transformed(shape, tiles, points, points, points)};
}

std::optional<ConvolutionCost> FftCost(const ConvolutionShape& shape) {
  if (!IsFlat(shape) || shape.is_for_weights || std::max(shape.kernel[1], shape.kernel[2]) >= kFftTile)
    return std::nullopt;
  const double stored = 2 * kFftTile * (kFftTile / 2 + 1);
  constexpr double kOfComplex = 4 * kFftTile * 5 - 6 * kFftTile + 8;  // split-radix: 4 t log2 t - 6 t + 8
  constexpr double kOfReal = kOfComplex / 2 - kFftTile + 2;
  constexpr double kTransform = (kFftTile + 2) * kOfReal + (kFftTile / 2 - 1) * kOfComplex;
  const double tiles = TilesOf(shape, kFftTile - shape.kernel[1] + 1, kFftTile - shape.kernel[2] + 1);
  const double products = 8 * kFftTile * (kFftTile / 2 + 1) * shape.outputs * (shape.inputs / shape.groups) * tiles;
  return ConvolutionCost{products + Transformed(shape, tiles, kTransform, kTransform, kTransform),
                         2 * Transformed(shape, tiles, stored, stored, stored)};
}

ConvolutionCost Im2colCost(const ConvolutionShape& shape) {
  const bool needs_none = Product(shape.kernel) == 1 && Product(shape.stride) == 1;
  const double patches = shape.images * Product(shape.out) * Product(shape.kernel) * shape.inputs;
  return {DirectFlops(shape), needs_none ? 0 : 2 * patches};
}

double NumberOf(const ProblemNumbers& numbers, absl::string_view key, double otherwise) {
  const auto at = numbers.find(key);
  return at == numbers.end() ? otherwise : static_cast<double>(at->second);
}

// Of "o", "k", "s", "d" or "i" for depth, height and width.
std::array<double, 3> SizesOf(const ProblemNumbers& numbers, absl::string_view letter, double otherwise) {
  return {NumberOf(numbers, absl::StrCat(letter, "d"), otherwise),
          NumberOf(numbers, absl::StrCat(letter, "h"), otherwise),
          NumberOf(numbers, absl::StrCat(letter, "w"), otherwise)};
}

}  // namespace

const char* ConvolutionAlgorithmName(ConvolutionAlgorithm algorithm) {
  return NameIn<ConvolutionAlgorithm::kFft>(algorithm,
                                            {"direct", "im2col", "Winograd F(2,3)", "Winograd F(4,3)", "FFT"});
}

std::optional<ConvolutionShape> ConvolutionShapeOf(const Op& op) {
  if (!IsKind(op, OpKind::kConvolution)) return std::nullopt;
  const std::optional<ProblemNumbers> numbers = ParseProblemNumbers(op.problem);
  if (!numbers || !numbers->contains("mb") || !numbers->contains("ic") || !numbers->contains("oc")) return std::nullopt;
  ConvolutionShape shape = {.images = NumberOf(*numbers, "mb", 1),
                            .groups = std::max(NumberOf(*numbers, "g", 1), 1.0),
                            .inputs = NumberOf(*numbers, "ic", 1),
                            .outputs = NumberOf(*numbers, "oc", 1),
                            .in = SizesOf(*numbers, "i", 1),
                            .out = SizesOf(*numbers, "o", 1),
                            .kernel = SizesOf(*numbers, "k", 1),
                            .stride = SizesOf(*numbers, "s", 1),
                            .dilation = SizesOf(*numbers, "d", 0),
                            .is_for_weights = op.direction == Direction::kBackwardWeights,
                            .is_for_data = op.direction == Direction::kBackwardData};
  const double smallest = std::min(
      {shape.images, shape.inputs, shape.outputs, Smallest(shape.in), Smallest(shape.out), Smallest(shape.kernel)});
  if (smallest < 1) return std::nullopt;
  return shape;
}

std::optional<ConvolutionCost> CostOf(const ConvolutionShape& shape, ConvolutionAlgorithm algorithm) {
  if (shape.is_for_data && algorithm != ConvolutionAlgorithm::kDirect && algorithm != ConvolutionAlgorithm::kIm2col) {
    ConvolutionShape exchanged = shape;
    std::swap(exchanged.inputs, exchanged.outputs);
    std::swap(exchanged.in, exchanged.out);
    exchanged.is_for_data = false;
    return CostOf(exchanged, algorithm);
  }
  switch (algorithm) {
    case ConvolutionAlgorithm::kDirect:
      return ConvolutionCost{DirectFlops(shape), 0};
    case ConvolutionAlgorithm::kIm2col:
      return Im2colCost(shape);
    case ConvolutionAlgorithm::kWinograd2:
      return WinogradCost(shape, kWinograd2);
    case ConvolutionAlgorithm::kWinograd4:
      return WinogradCost(shape, kWinograd4);
    case ConvolutionAlgorithm::kFft:
      return FftCost(shape);
  }
  return std::nullopt;
}

// oneDNN's implementations: src/cpu/x64/jit_avx512_core_f32_wino_conv_4x3.hpp ("jit_wino_4x3:"), src/cpu/gemm_convolution.hpp ("gemm:"),
// the others direct. cuDNN's names of algorithms; implicit products make no matrix of patches.
std::optional<ConvolutionAlgorithm> ConvolutionAlgorithmOf(const Op& op) {
  const std::string& implementation = op.implementation;
  const std::string& algorithm = op.algorithm;
  if (op.family == "onednn") {
    if (absl::StrContains(implementation, "wino_4x3")) return ConvolutionAlgorithm::kWinograd4;
    if (absl::StrContains(implementation, "wino_2x3")) return ConvolutionAlgorithm::kWinograd2;
    if (absl::StrContains(implementation, "wino") || absl::StrContains(algorithm, "winograd")) return std::nullopt;
    if (absl::StartsWith(implementation, "gemm:") || absl::StrContains(implementation, "gemm_"))
      return ConvolutionAlgorithm::kIm2col;
    if (algorithm == "convolution_direct" || absl::StartsWith(implementation, "jit") ||
        absl::StartsWith(implementation, "brg") || absl::StartsWith(implementation, "ref")) {
      return ConvolutionAlgorithm::kDirect;
    }
    return std::nullopt;
  }
  if (algorithm == "fft_tiling") return ConvolutionAlgorithm::kFft;
  if (algorithm == "gemm") return ConvolutionAlgorithm::kIm2col;
  if (algorithm == "implicit_gemm" || algorithm == "implicit_precomp_gemm" || algorithm == "direct")
    return ConvolutionAlgorithm::kDirect;
  return std::nullopt;
}

}  // namespace dlhook::analyzer::peaks
