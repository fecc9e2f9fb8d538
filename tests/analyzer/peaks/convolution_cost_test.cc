// Operations of convolutions by algorithm, against published tables.
#include "analyzer/peaks/convolution_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dlhook::analyzer {
namespace {

Op Convolution(const std::string& problem, Direction direction = Direction::kForward) {
  Op op;
  op.kind = "convolution";
  op.problem = problem;
  op.direction = direction;
  return op;
}

// 3 x 3, stride 1, as VGG has them.
ConvolutionShape Vgg(double inputs, double size, double outputs, double images = 1) {
  return {.images = images,
          .inputs = inputs,
          .outputs = outputs,
          .in = {1, size, size},
          .out = {1, size, size},
          .kernel = {1, 3, 3}};
}

double FlopsOf(const ConvolutionShape& shape, ConvolutionAlgorithm algorithm) {
  return CostOf(shape, algorithm)->flops;
}

// Lavin and Gray, arXiv:1509.09308v2, table 3: VGG network E, GFLOPs of one image, for all layers of a shape together.
TEST(ConvolutionCost, DirectIsAsPublishedForVgg) {
  const struct {
    double inputs, size, outputs, layers, gflops;
  } kShapes[] = {{3, 224, 64, 1, 0.17},    {64, 224, 64, 1, 3.70},   {64, 112, 128, 1, 1.85},
                 {128, 112, 128, 1, 3.70}, {128, 56, 256, 1, 1.85},  {256, 56, 256, 3, 11.10},
                 {256, 28, 512, 1, 1.85},  {512, 28, 512, 3, 11.10}, {512, 14, 512, 4, 3.70}};
  double total = 0;
  for (const auto& shape : kShapes) {
    const double gflops =
        shape.layers * FlopsOf(Vgg(shape.inputs, shape.size, shape.outputs), ConvolutionAlgorithm::kDirect) / 1e9;
    EXPECT_NEAR(gflops, shape.gflops, 0.005) << shape.inputs << " " << shape.size;
    total += gflops;
  }
  EXPECT_NEAR(total, 39.02, 0.01);
}

// The same, sections 4.1 and 4.3: arithmetic is reduced by 2.25 with F(2x2, 3x3) and by 4 with F(4x4, 3x3), transforms
// aside; these become small where there are many channels and images.
TEST(ConvolutionCost, WinogradReducesAsPublished) {
  const ConvolutionShape large = Vgg(1e6, 224, 1e6, 1e3);
  const double direct = FlopsOf(large, ConvolutionAlgorithm::kDirect);
  EXPECT_NEAR(direct / FlopsOf(large, ConvolutionAlgorithm::kWinograd2), 2.25, 0.001);
  EXPECT_NEAR(direct / FlopsOf(large, ConvolutionAlgorithm::kWinograd4), 4, 0.001);
}

// The same, table 1 in equation 23: alpha' (1 + beta'/K + gamma'/P + delta'/C) N H W C K multiplications' worth, with P
// tiles. Here operations are counted: products twice, instructions of transforms once.
double Published(double alpha, double beta, double gamma, double delta, const ConvolutionShape& shape, double tiles) {
  return alpha * shape.images * shape.out[1] * shape.out[2] * shape.inputs * shape.outputs *
         (2 + beta / shape.outputs + gamma / tiles + delta / shape.inputs);
}

TEST(ConvolutionCost, TransformsAreAsPublished) {
  const ConvolutionShape wide = Vgg(64, 120, 128, 8);  // whole tiles of 2, 4 and 30 results
  const double points = 8 * 120 * 120;
  EXPECT_NEAR(FlopsOf(wide, ConvolutionAlgorithm::kWinograd2) / Published(4.00, 2.00, 1.75, 1.50, wide, points / 4), 1,
              1e-4);
  EXPECT_NEAR(FlopsOf(wide, ConvolutionAlgorithm::kWinograd4) / Published(2.25, 4.33, 2.00, 2.78, wide, points / 16), 1,
              1e-4);
  EXPECT_NEAR(FlopsOf(wide, ConvolutionAlgorithm::kFft) / Published(2.42, 6.24, 6.24, 6.24, wide, points / 900), 1,
              2e-3);  // 2.42 stands for 2.418
}

// The same, section 4.3: instructions for one tile of F(4x4, 3x3). (Lavin's wincnn counts 144 for the data.)
TEST(ConvolutionCost, InstructionsOfATileAreAsPublished) {
  const auto of_tile = [](double inputs, double outputs) {
    return FlopsOf(Vgg(inputs, 4, outputs), ConvolutionAlgorithm::kWinograd4) - 2 * 36 * inputs * outputs;
  };
  EXPECT_EQ(of_tile(1, 1), 156 + 72 + 100);
  EXPECT_EQ(of_tile(2, 1), 2 * 156 + 2 * 72 + 100);
  EXPECT_EQ(of_tile(1, 2), 156 + 2 * 72 + 2 * 100);
}

// A last tile that is not full is computed in full: 14 = 3.5 x 4.
TEST(ConvolutionCost, BordersAreCountedAsComputed) {
  const ConvolutionShape small = Vgg(1e6, 14, 1e6, 1e3);
  const double reduction =
      FlopsOf(small, ConvolutionAlgorithm::kDirect) / FlopsOf(small, ConvolutionAlgorithm::kWinograd4);
  EXPECT_NEAR(reduction, 4 * (14.0 * 14) / (16 * 16), 0.01);
}

// The same, table 1: with tiles of 32 and kernels of 3 x 3 an FFT needs 2.42 real multiplications for a result (each
// complex product taken as four), whose multiply-add is two operations of eight.
TEST(ConvolutionCost, FftIsAsPublished) {
  const ConvolutionShape large = Vgg(1e7, 30 * 8, 1e7, 1e4);
  const double multiplications = FlopsOf(large, ConvolutionAlgorithm::kFft) / 2 / (1e7 * 1e7 * 1e4 * 240 * 240);
  EXPECT_NEAR(multiplications, 2.42, 0.005);
}

TEST(ConvolutionCost, Im2colMovesItsPatches) {
  const ConvolutionCost cost = *CostOf(Vgg(64, 56, 128, 4), ConvolutionAlgorithm::kIm2col);
  EXPECT_EQ(cost.flops, FlopsOf(Vgg(64, 56, 128, 4), ConvolutionAlgorithm::kDirect));
  EXPECT_EQ(cost.extra_elements, 2.0 * 4 * 56 * 56 * 9 * 64);
  ConvolutionShape point = Vgg(64, 56, 128, 4);
  point.kernel = {1, 1, 1};
  EXPECT_EQ(CostOf(point, ConvolutionAlgorithm::kIm2col)->extra_elements, 0);
}

TEST(ConvolutionCost, IsUnknownWhereTheAlgorithmIsNotMeantForIt) {
  const auto has = [](const std::string& problem, ConvolutionAlgorithm algorithm,
                      Direction direction = Direction::kForward) {
    return CostOf(*ConvolutionShapeOf(Convolution(problem, direction)), algorithm).has_value();
  };
  const std::string flat = "mb8_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1";
  const std::string strided = "mb8_ic16oc16_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1";
  const std::string five = "mb8_ic16oc16_ih32oh32kh5sh1dh0ph2_iw32ow32kw5sw1dw0pw2";
  const std::string dilated = "mb8_ic16oc16_ih32oh28kh3sh1dh1ph0_iw32ow28kw3sw1dw1pw0";
  for (const ConvolutionAlgorithm algorithm : kConvolutionAlgorithms) EXPECT_TRUE(has(flat, algorithm));
  for (const auto algorithm :
       {ConvolutionAlgorithm::kWinograd2, ConvolutionAlgorithm::kWinograd4, ConvolutionAlgorithm::kFft}) {
    EXPECT_FALSE(has(strided, algorithm));
    EXPECT_FALSE(has(dilated, algorithm));
    EXPECT_FALSE(has(flat, algorithm, Direction::kBackwardWeights));
    EXPECT_EQ(has(five, algorithm), algorithm == ConvolutionAlgorithm::kFft);
    EXPECT_TRUE(has(flat, algorithm, Direction::kBackwardData));
  }
}

// A gradient for data is a convolution of the results' channels into the inputs', over the input's points.
TEST(ConvolutionCost, OfDataGradientsExchangesInputAndOutput) {
  const auto cost = [](const std::string& problem, Direction direction) {
    return FlopsOf(*ConvolutionShapeOf(Convolution(problem, direction)), ConvolutionAlgorithm::kWinograd4);
  };
  EXPECT_EQ(cost("mb8_ic16oc48_ih34oh32kh3sh1dh0ph0_iw34ow32kw3sw1dw0pw0", Direction::kBackwardData),
            cost("mb8_ic48oc16_ih32oh34kh3sh1dh0ph2_iw32ow34kw3sw1dw0pw2", Direction::kForward));
}

TEST(ConvolutionCost, AgreesWithTheBooks) {
  const ConvolutionShape grouped =
      *ConvolutionShapeOf(Convolution("g16mb8_ic16oc32_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1"));
  EXPECT_EQ(FlopsOf(grouped, ConvolutionAlgorithm::kDirect), 2.0 * 8 * 32 * 1 * 16 * 16 * 9);
  const ConvolutionShape deep =
      *ConvolutionShapeOf(Convolution("mb2_ic3oc4_id8od8kd3sd1dd0pd1_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1"));
  EXPECT_EQ(FlopsOf(deep, ConvolutionAlgorithm::kDirect), 2.0 * 2 * 4 * 3 * 512 * 27);
  EXPECT_FALSE(ConvolutionShapeOf(Convolution("8x16:16x10")));
  EXPECT_FALSE(ConvolutionShapeOf(Convolution("mb0_ic3oc4_ih8oh8kh3")));
}

TEST(ConvolutionAlgorithm, IsWhatTheLibrarySays) {
  const auto of = [](const char* family, const char* implementation, const char* algorithm) -> std::string {
    Op op = Convolution("mb1_ic1oc1");
    op.family = family;
    op.implementation = implementation;
    op.algorithm = algorithm;
    const auto found = ConvolutionAlgorithmOf(op);
    return found ? ConvolutionAlgorithmName(*found) : "";
  };
  EXPECT_EQ(of("onednn", "jit_wino_4x3:avx512_core", "convolution_winograd"), "Winograd F(4,3)");
  EXPECT_EQ(of("onednn", "brgconv:avx512_core", "convolution_direct"), "direct");
  EXPECT_EQ(of("onednn", "gemm:jit", "convolution_direct"), "im2col");
  EXPECT_EQ(of("onednn", "wino_reorder", "convolution_winograd"), "");
  EXPECT_EQ(of("cudnn", "", "implicit_precomp_gemm"), "direct");
  EXPECT_EQ(of("cudnn", "", "fft_tiling"), "FFT");
  EXPECT_EQ(of("cudnn", "", "winograd_nonfused"), "");
  EXPECT_EQ(of("cudnn", "engine 34 k24=35 k2=1", ""), "");
}

}  // namespace
}  // namespace dlhook::analyzer
