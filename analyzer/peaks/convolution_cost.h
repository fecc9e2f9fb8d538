// What a convolution costs by each of the algorithms that libraries have: operations, and what they move beyond the tensors themselves.
//
// A real addition or multiplication is one operation. N images, C input and K output channels in G groups, an output of P points, a kernel
// of R points:
//   direct    2 N K (C/G) P R: op_cost.h's ConvolutionFlops, the same forward, for data and for weights.
//   im2col    the same operations, as a product. The matrix of patches, N P R C elements, is written and read once more (Chetlur et al.,
//             "cuDNN: Efficient Primitives for Deep Learning", arXiv:1410.0759, section 3.1). A kernel of one point with stride 1 needs none.
//   Winograd  F(m x m, 3 x 3) with tiles of t = m + 2 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
//             arXiv:1509.09308, section 4): T = N ceil(P_h/m) ceil(P_w/m) tiles, 2 K (C/G) T t^2 operations in the products, and the
//             transforms: C T beta for the data, K (C/G) gamma for the filter, K T delta back, in floating-point instructions. Its table 1
//             has beta, gamma and delta divided by t^2: 2.00, 1.75, 1.50 for t = 4; 4.33, 2.00, 2.78 for t = 6. Kernels of 3 x 3 with
//             stride 1 and dilation 0 only.
//   FFT       in tiles of t = 32 (cuDNN's fft_tiling; Vasilache et al., "Fast Convolutional Nets With fbfft", arXiv:1412.7580), of which
//             t - r + 1 points in each direction are results: t (t/2 + 1) complex products by symmetry (Lavin and Gray, section 4.4), 8
//             operations each, for every tile, K and C/G; transforms by the split-radix algorithm, as in their table 1: t + 2 of t real
//             numbers, t/2 - 1 of t complex ones. Stride 1, dilation 0, two dimensions, kernels smaller than a tile.
// All count a tile at the border in full, as the algorithms compute it. Of the gradients those for data are convolutions with input and output
// exchanged. Those for weights are no convolution with a small kernel: only direct and im2col are counted.
#pragma once

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline peaks {

enum class ConvolutionAlgorithm : uint8_t { kDirect, kIm2col, kWinograd2, kWinograd4, kFft };
inline constexpr std::array kConvolutionAlgorithms = {ConvolutionAlgorithm::kDirect, ConvolutionAlgorithm::kIm2col,
                                                      ConvolutionAlgorithm::kWinograd2,
                                                      ConvolutionAlgorithm::kWinograd4, ConvolutionAlgorithm::kFft};
const char* ConvolutionAlgorithmName(ConvolutionAlgorithm algorithm);  // "direct", "im2col", "Winograd F(2,3)" …

// Up to three dimensions; missing ones have size 1.
struct ConvolutionShape {
  double images = 1;
  double groups = 1;
  double inputs = 1;                     // channels
  double outputs = 1;                    // channels
  std::array<double, 3> in = {1, 1, 1};  // depth, height, width
  std::array<double, 3> out = {1, 1, 1};
  std::array<double, 3> kernel = {1, 1, 1};
  std::array<double, 3> stride = {1, 1, 1};
  std::array<double, 3> dilation = {0, 0, 0};
  bool is_for_weights = false;
  bool is_for_data = false;
};
// Of an op of kind "convolution", by its problem in oneDNN's words. nullopt: another kind, or its shape is not known.
std::optional<ConvolutionShape> ConvolutionShapeOf(const Op& op);

struct ConvolutionCost {
  double flops = 0;
  double extra_elements = 0;  // written and read again, beyond the tensors
};
// nullopt: the algorithm can't compute it.
std::optional<ConvolutionCost> CostOf(const ConvolutionShape& shape, ConvolutionAlgorithm algorithm);

// By which of them the op was computed, as far as its library's words tell. nullopt: they don't; for Winograd also where the tile's size
// is not told.
std::optional<ConvolutionAlgorithm> ConvolutionAlgorithmOf(const Op& op);

}  // namespace dlhook::analyzer::peaks
