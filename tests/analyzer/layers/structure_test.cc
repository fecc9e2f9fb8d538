// Layers from operands, shapes and order alone, on programs written call by call with their truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/layers/structure_calls.h"

namespace dlhook::analyzer {
namespace structure_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kForward[] = "forward_training";
constexpr char kData[] = "backward_data";
constexpr char kWeights[] = "backward_weights";

// Forward and backward passes of consecutive convolutions, as PyTorch runs them on oneDNN; the first needs no gradient
// of its input.
void ForwardConvs(StructureCalls& calls, const std::vector<Conv>& convs, int64_t batch,
                  const char* direction = kForward) {
  for (size_t i = 0; i < convs.size(); ++i) {
    calls.OneDnnConv(convs[i], batch, direction, absl::StrCat("conv", i + 1, " forward"));
  }
}

void BackwardConvs(StructureCalls& calls, const std::vector<Conv>& convs, int64_t batch) {
  for (size_t i = convs.size(); i-- > 0;) {
    const std::string layer = absl::StrCat("conv", i + 1);
    if (i > 0) calls.OneDnnConv(convs[i], batch, kData, layer + " backward-data");
    calls.OneDnnConv(convs[i], batch, kWeights, layer + " backward-weights");
  }
}

const std::vector<Conv> kAlexNet = {
    {3, 64, 224, 11, 4, 2}, {64, 192, 27, 5, 1, 2}, {192, 384, 13}, {384, 256, 13}, {256, 256, 13}};

// The outputs of each layer have another address in each step, as with allocators.
struct Classifier {
  std::vector<int64_t> sizes;
  uint64_t weights(size_t i) const { return 0x100000 * (i + 1); }
  uint64_t input(size_t i, int step) const { return 0x7000000 + 0x10000 * (i + 1) + 0x1000 * (step % 3); }

  void Forward(StructureCalls& calls, int64_t batch, int step) const {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      calls.Linear(batch, sizes[i], sizes[i + 1], input(i, step), weights(i), 0x6000000, absl::StrCat("fc", i + 1));
    }
  }
  void Backward(StructureCalls& calls, int64_t batch, int step, bool first_has_data = true) const {
    for (size_t i = sizes.size() - 1; i-- > 0;) {
      calls.LinearBackward(batch, sizes[i], sizes[i + 1], input(i, step), weights(i), 0x5000000 + 0x1000 * (i % 2),
                           absl::StrCat("fc", i + 1), i > 0 || first_has_data);
    }
  }
};

TEST(StructureTest, AlexNetOnOneDnn) {
  StructureCalls calls;
  const Classifier classifier = {{9216, 4096, 4096, 1000}};
  for (int step = 0; step < 4; ++step) {
    ForwardConvs(calls, kAlexNet, 8);
    classifier.Forward(calls, 8, step);
    classifier.Backward(calls, 8, step);
    BackwardConvs(calls, kAlexNet, 8);
  }
  const Attribution found = calls.Check();
  EXPECT_THAT(NamesOf(found), ElementsAre("conv1", "conv2", "conv3", "conv4", "conv5", "fc1", "fc2", "fc3"));
  EXPECT_THAT(found.oddities, IsEmpty());
  for (const Layer& layer : found.layers) EXPECT_EQ(layer.ambiguity, "") << layer.name;
  EXPECT_EQ(LayerNamed(found, "conv4").evidence, Evidence::kShapes);
  EXPECT_EQ(LayerNamed(found, "fc2").evidence, Evidence::kPointers);
  EXPECT_EQ(LayerNamed(found, "fc2").type, "linear");
  EXPECT_EQ(LayerNamed(found, "conv1").model, "");
}

// Caffe: image by image, im2col into a buffer, one product per group, the bias as a product with ones.
struct CaffeConv {
  int64_t in, out, positions, kernel, groups;
  uint64_t base;
  uint64_t weights(int64_t g) const { return base + static_cast<uint64_t>(g * 4 * (out / groups) * depth()); }
  uint64_t columns(int64_t g) const { return base + 0x40000000 + static_cast<uint64_t>(g * 4 * depth() * positions); }
  uint64_t top(int64_t image, int64_t g) const {
    return base + 0x80000000 + static_cast<uint64_t>(4 * positions * (image * out + g * (out / groups)));
  }
  uint64_t gradient(int64_t image, int64_t g) const { return top(image, g) + 0x100000000; }
  int64_t depth() const { return in / groups * kernel * kernel; }
};

void CaffeForward(StructureCalls& calls, const CaffeConv& conv, int64_t images, const std::string& layer) {
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t g = 0; g < conv.groups; ++g) {
      calls.Gemm(conv.positions, conv.out / conv.groups, conv.depth(), "NN", conv.columns(g), conv.weights(g),
                 conv.top(image, g), layer + " forward");
    }
    calls.Gemm(conv.positions, conv.out, 1, "NN", 0x11110000, conv.base + 0x30000000, conv.top(image, 0),
               layer + " forward");
  }
}

void CaffeBackward(StructureCalls& calls, const CaffeConv& conv, int64_t images, const std::string& layer,
                   bool has_data) {
  for (int64_t image = 0; image < images; ++image) {
    calls.Gemv(conv.positions, conv.out, "T", conv.gradient(image, 0), 0x11110000, conv.base + 0x38000000,
               layer + " backward-bias");
  }
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t g = 0; g < conv.groups; ++g) {
      calls.Gemm(conv.depth(), conv.out / conv.groups, conv.positions, "TN", conv.columns(g), conv.gradient(image, g),
                 conv.weights(g) + 0x20000000, layer + " backward-weights");
    }
    for (int64_t g = 0; has_data && g < conv.groups; ++g) {
      calls.Gemm(conv.positions, conv.depth(), conv.out / conv.groups, "NT", conv.gradient(image, g), conv.weights(g),
                 conv.columns(g) + 0x200000000, layer + " backward-data");
    }
  }
}

TEST(StructureTest, AlexNetInCaffesStyle) {
  const std::vector<CaffeConv> convs = {{3, 96, 3025, 11, 1, 0x1000000000},
                                        {96, 256, 729, 5, 2, 0x2000000000},
                                        {256, 384, 169, 3, 1, 0x3000000000},
                                        {384, 384, 169, 3, 2, 0x4000000000},
                                        {384, 256, 169, 3, 2, 0x5000000000}};
  const Classifier classifier = {{9216, 4096, 1000}};
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < convs.size(); ++i) CaffeForward(calls, convs[i], 4, absl::StrCat("conv", i + 1));
    classifier.Forward(calls, 4, step);
    classifier.Backward(calls, 4, step);
    for (size_t i = convs.size(); i-- > 0;) {
      CaffeBackward(calls, convs[i], 4, absl::StrCat("conv", i + 1), /*has_data=*/i > 0);
    }
  }
  const Attribution found = calls.Check();
  EXPECT_THAT(NamesOf(found), ElementsAre("conv1", "conv2", "conv3", "conv4", "conv5", "fc1", "fc2"));
  EXPECT_EQ(LayerNamed(found, "conv4").type, "convolution");
  EXPECT_EQ(LayerNamed(found, "conv4").evidence, Evidence::kPointers);
  EXPECT_EQ(LayerNamed(found, "conv4").ambiguity, "");
}

// Caffe's softmax subtracts the maximum and sums image by image, by products with ones: no layer.
TEST(StructureTest, ProductsOfASoftmaxAreNoLayer) {
  constexpr uint64_t kOnes = 0x22220000, kScale = 0x22230000;
  const std::vector<CaffeConv> convs = {{3, 16, 576, 5, 1, 0x1000000000}, {16, 32, 64, 5, 1, 0x2000000000}};
  const Classifier classifier = {{512, 64, 10}};
  StructureCalls calls;
  for (int step = 0; step < 4; ++step) {
    for (size_t i = 0; i < convs.size(); ++i) CaffeForward(calls, convs[i], 4, absl::StrCat("conv", i + 1));
    classifier.Forward(calls, 4, step);
    for (uint64_t image = 0; image < 4; ++image) {
      calls.Gemm(1, 10, 1, "NN", kScale, kOnes, 0x6000000 + 40 * image, "products, ambiguous unknown");
      calls.Gemv(1, 10, "N", 0x6000000 + 40 * image, kOnes, kScale, "products, ambiguous unknown");
    }
    classifier.Backward(calls, 4, step);
    for (size_t i = convs.size(); i-- > 0;) {
      CaffeBackward(calls, convs[i], 4, absl::StrCat("conv", i + 1), /*has_data=*/i > 0);
    }
  }
  EXPECT_THAT(NamesOf(calls.Check()), ElementsAre("conv1", "conv2", "fc1", "fc2", "products, ambiguous"));
}

// cuDNN's tensors as textproto.
std::string CudnnTensor(const char* role, int64_t n, int64_t c, int64_t size) {
  return absl::StrCat("tensor { role: ", role, " type: F32 dim: ", n, " dim: ", c, " dim: ", size, " dim: ", size,
                      " stride: ", c * size * size, " stride: ", size * size, " stride: ", size, " stride: 1 } ");
}

struct CudnnConv {
  Conv conv;
  uint64_t x, w, y;

  std::string Fields(const char* operation, const char* x_role, const char* w_role, const char* y_role) const {
    return absl::StrCat("operation: '", operation, "' ", CudnnTensor(x_role, 4, conv.in, conv.size),
                        CudnnTensor(w_role, conv.out, conv.in, conv.kernel),
                        CudnnTensor(y_role, 4, conv.out, conv.out_size()), "pad: ", conv.padding,
                        " pad: ", conv.padding, " stride: 1 stride: 1 dilation: 1 dilation: 1 groups: 1");
  }
  void Forward(StructureCalls& calls, const std::string& layer) const {
    calls.Cudnn(Fields("convolution_forward", "X", "W", "Y"), x, w, y, layer + " forward");
    calls.Cudnn(absl::StrCat("operation: 'add_tensor' ", CudnnTensor("BIAS", 1, conv.out, 1),
                             CudnnTensor("Y", 4, conv.out, conv.out_size())),
                w + 0x100, 0, y, layer + " forward");
  }
  void Backward(StructureCalls& calls, uint64_t dy, const std::string& layer, bool has_data) const {
    calls.Cudnn(absl::StrCat("operation: 'convolution_backward_bias' ", CudnnTensor("DY", 4, conv.out, conv.out_size()),
                             CudnnTensor("DBIAS", 1, conv.out, 1)),
                dy, 0, w + 0x200, layer + " backward-bias");
    calls.Cudnn(Fields("convolution_backward_weights", "X", "DW", "DY"), x, dy, w + 0x300, layer + " backward-weights");
    if (has_data) {
      calls.Cudnn(Fields("convolution_backward_data", "DX", "W", "DY"), dy, w, x + 0x400, layer + " backward-data");
    }
  }
};

void CudnnSimple(StructureCalls& calls, const char* operation, int64_t channels, int64_t in, int64_t out,
                 const std::string& truth) {
  calls.Cudnn(absl::StrCat("operation: '", operation, "' ", CudnnTensor("X", 4, channels, in),
                           CudnnTensor("Y", 4, channels, out), "mode: 1"),
              0x70, 0, 0x71, truth);
}

// Three convolutions of the same shape and input: only addresses distinguish them.
TEST(StructureTest, LeNetOnCudnnWithBranchesByAddresses) {
  const Conv same = {16, 16, 12, 3, 1, 1};
  const CudnnConv first = {{1, 16, 28, 5, 1, 2}, 0x1000, 0x2000, 0x3000};
  const std::vector<CudnnConv> branches = {
      {same, 0x4000, 0x5000, 0x6000}, {same, 0x4000, 0x5800, 0x6800}, {same, 0x4000, 0x5c00, 0x6c00}};
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    first.Forward(calls, "conv1");
    CudnnSimple(calls, "activation_forward", 16, 28, 28, "relu1 forward");
    CudnnSimple(calls, "pooling_forward", 16, 28, 12, "pool1 forward");
    for (size_t i = 0; i < 3; ++i) branches[i].Forward(calls, absl::StrCat("conv", i + 2));
    CudnnSimple(calls, "softmax_forward", 16, 12, 12, "softmax1 forward");
    CudnnSimple(calls, "softmax_backward", 16, 12, 12, "softmax1 backward");
    // Not in reverse order, but as branches become ready.
    for (size_t i : {1, 2, 0}) {
      branches[i].Backward(calls, 0x8000 + 0x100 * i, absl::StrCat("conv", i + 2), true);
    }
    CudnnSimple(calls, "pooling_backward", 16, 28, 12, "pool1 backward");
    CudnnSimple(calls, "activation_backward", 16, 28, 28, "relu1 backward");
    first.Backward(calls, 0x9000, "conv1", false);
  }
  const Attribution found = calls.Check();
  EXPECT_EQ(LayerNamed(found, "conv3").evidence, Evidence::kPointers);
  EXPECT_EQ(LayerNamed(found, "conv3").ambiguity, "");
}

TEST(StructureTest, SquareLayersByAddresses) {
  const Classifier network = {{256, 256, 256, 256, 256}};
  StructureCalls calls;
  for (int step = 0; step < 5; ++step) {
    network.Forward(calls, 256, step);
    network.Backward(calls, 256, step, /*first_has_data=*/false);
  }
  EXPECT_EQ(LayerNamed(calls.Check(), "fc3").evidence, Evidence::kPointers);
}

// Three equal layers. In every third step, what the gradient of the second one's weights reads is where no other product
// has it.
class CopiedOperandsTest : public testing::Test {
 protected:
  static bool IsCopied(int step) { return step % 3 == 2; }

  void Step(int step, int64_t batch, const std::string& truth_if_copied) {
    const Classifier network = {{256, 256, 256, 256}};
    network.Forward(calls_, batch, step);
    for (size_t i = 3; i-- > 0;) {
      const uint64_t dy = 0x5000000 + 0x1000 * (i % 2), other = 0x9000000 + static_cast<uint64_t>(step) * 16;
      const std::string layer = absl::StrCat("fc", i + 1);
      const bool is_copied = i == 1 && IsCopied(step);
      if (i > 0) calls_.Gemm(256, batch, 256, "NN", network.weights(i), dy, 0x4000000, layer + " backward-data");
      calls_.Gemm(256, 256, batch, "NT", is_copied ? other : network.input(i, step), is_copied ? other + 8 : dy,
                  0x3000000 + 0x1000 * i,
                  IsCopied(step) && !truth_if_copied.empty() ? truth_if_copied : layer + " backward-weights");
    }
  }
  StructureCalls calls_;
};

TEST_F(CopiedOperandsTest, EqualStepsDecideForEachOther) {
  for (int step = 0; step < 9; ++step) Step(step, 256, "");
  EXPECT_EQ(LayerNamed(calls_.Check(), "fc2").ambiguity, "");
}

// Each of these steps has a batch size of its own: none is like another.
TEST_F(CopiedOperandsTest, ALayerThatLacksGradientsSaysWhichPartItHas) {
  for (int step = 0; step < 9; ++step) {
    Step(step, IsCopied(step) ? 256 + 8 * step : 256, "products, ambiguous unknown");
  }
  const Attribution found = calls_.Check();
  for (const char* name : {"fc1", "fc2", "fc3"}) {
    EXPECT_THAT(LayerNamed(found, name).ambiguity, HasSubstr("has 6 of 9 gradients of its weights")) << name;
  }
}

// oneDNN's log has no addresses: sizes and transposes, starting at the last layer.
TEST(StructureTest, ProductsWithoutAddresses) {
  StructureCalls calls;
  const auto product = [&](const std::string& sizes, const char* a, const char* b, const std::string& truth) {
    calls.OneDnn("gemm_api", "undef",
                 absl::StrCat("src_f32::blocked:", a, ":f0 wei_f32::blocked:", b, ":f0 dst_f32::blocked:ab:f0"), "",
                 sizes, truth);
  };
  constexpr char kMatrices[] = "src:f32::blocked:ab::f0 wei:f32::blocked:ba::f0 dst:f32::blocked:ab::f0";
  for (int step = 0; step < 3; ++step) {
    calls.OneDnn("inner_product", kForward, kMatrices, "", "mb8ic48oc128", "fc1 forward");
    calls.OneDnn("inner_product", kForward, kMatrices, "", "mb8ic128oc128", "fc2 forward");
    calls.OneDnn("inner_product", kForward, kMatrices, "", "mb8ic128oc10", "fc3 forward");
    if (step != 1) product("128x8:8x10", "ba", "ab", "fc3 backward-weights");
    product("8x10:10x128", "ab", "ba", "fc3 backward-data");
    if (step == 1) product("128x8:8x10", "ba", "ab", "fc3 backward-weights");
    product("128x8:8x128", "ba", "ab", "fc2 backward-weights");
    product("8x128:128x128", "ab", "ba", "fc2 backward-data");
    product("48x8:8x128", "ba", "ab", "fc1 backward-weights");
  }
  EXPECT_EQ(LayerNamed(calls.Check(), "fc2").evidence, Evidence::kShapes);
}

const std::vector<Conv> kVgg = {{3, 8, 32}, {8, 8, 32}, {8, 16, 16}, {16, 16, 16}, {16, 16, 16}, {16, 16, 16}};

TEST(StructureTest, EqualShapesInARowAreCertain) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, kVgg, 8);
    BackwardConvs(calls, kVgg, 8);
  }
  const Attribution found = calls.Check();
  EXPECT_EQ(LayerNamed(found, "conv5").evidence, Evidence::kOrder);
  EXPECT_EQ(LayerNamed(found, "conv5").ambiguity, "");
}

// A residual network: the shortcut's convolution is between layers of one shape, so that these may be branches.
TEST(StructureTest, EqualShapesAroundABranchAreAmbiguous) {
  const std::vector<Conv> residual = {
      {3, 16, 32}, {16, 32, 32, 3, 2}, {32, 32, 16}, {16, 32, 32, 1, 2, 0}, {32, 32, 16}};
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, residual, 8);
    BackwardConvs(calls, residual, 8);
  }
  const Attribution found = calls.Check();
  EXPECT_THAT(LayerNamed(found, "conv3").ambiguity, HasSubstr("branches side by side"));
  EXPECT_THAT(LayerNamed(found, "conv5").ambiguity, HasSubstr("2 layers have this shape"));
  EXPECT_EQ(LayerNamed(found, "conv2").ambiguity, "");
  EXPECT_EQ(LayerNamed(found, "conv4").ambiguity, "");
}

// Several threads: weight gradients of two layers are ready at the same time.
TEST(StructureTest, AnOrderWithSeveralReadingsIsAmbiguous) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, kVgg, 8);
    for (const char* truth : {"conv6 backward-data", "conv5 backward-data"}) {
      calls.OneDnnConv(kVgg[5], 8, kData, truth);
    }
    for (const char* truth : {"conv6 backward-weights", "conv5 backward-weights"}) {
      calls.OneDnnConv(kVgg[5], 8, kWeights, truth);
    }
    BackwardConvs(calls, {kVgg[0], kVgg[1], kVgg[2], kVgg[3]}, 8);
  }
  const Attribution found = calls.Check();
  EXPECT_THAT(LayerNamed(found, "conv5").ambiguity, HasSubstr("several readings"));
  EXPECT_EQ(LayerNamed(found, "conv2").ambiguity, "");
}

TEST(StructureTest, GroupedConvolutions) {
  const std::vector<Conv> convs = {
      {3, 32, 32}, {32, 32, 32, 3, 1, 1, 4}, {32, 32, 32, 3, 1, 1, 32}, {32, 64, 32, 1, 1, 0}};
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, convs, 8, "forward_inference");  // some frameworks set this in training, too
    BackwardConvs(calls, convs, 8);
  }
  EXPECT_THAT(NamesOf(calls.Check()), ElementsAre("conv1", "conv2", "conv3", "conv4"));
}

TEST(StructureTest, RaggedBatchesAreTheSameLayers) {
  StructureCalls calls;
  const Classifier classifier = {{9216, 4096, 10}};
  for (int64_t batch : {5, 8, 8, 8, 3}) {
    ForwardConvs(calls, kAlexNet, batch);
    classifier.Forward(calls, batch, 0);
    classifier.Backward(calls, batch, 0);
    BackwardConvs(calls, kAlexNet, batch);
  }
  EXPECT_EQ(calls.Check().layers.size(), 7u);
}

TEST(StructureTest, InferenceOnly) {
  StructureCalls calls;
  const Classifier classifier = {{9216, 4096, 10}};
  for (int step = 0; step < 6; ++step) {
    ForwardConvs(calls, kAlexNet, 8, "forward_inference");
    classifier.Forward(calls, 8, step);
  }
  EXPECT_EQ(calls.Check().layers.size(), 7u);
}

TEST(StructureTest, EvaluationBetweenTrainingSteps) {
  StructureCalls calls;
  const Classifier classifier = {{4096, 64, 10}};
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int step = 0; step < 4; ++step) {
      ForwardConvs(calls, kVgg, 8);
      classifier.Forward(calls, 8, step);
      classifier.Backward(calls, 8, step);
      BackwardConvs(calls, kVgg, 8);
    }
    for (int step = 0; step < 3; ++step) {
      ForwardConvs(calls, kVgg, 16);
      classifier.Forward(calls, 16, step);
    }
  }
  const Attribution found = calls.Check();
  EXPECT_EQ(found.layers.size(), 8u);
  for (const Layer& layer : found.layers) EXPECT_EQ(layer.ambiguity, "") << layer.name;
}

// A batch runs through the network before training begins, e.g. to find the shape of its output.
TEST(StructureTest, AForwardRunBeforeTrainingIsNotRecomputed) {
  StructureCalls calls;
  const Classifier classifier = {{4096, 64, 10}};
  ForwardConvs(calls, kVgg, 8);
  classifier.Forward(calls, 8, 0);
  for (int step = 0; step < 5; ++step) {
    ForwardConvs(calls, kVgg, 8);
    classifier.Forward(calls, 8, step);
    classifier.Backward(calls, 8, step);
    BackwardConvs(calls, kVgg, 8);
  }
  EXPECT_EQ(calls.Check().layers.size(), 8u);
}

// Two inputs compared: twice forward through the network, then twice backward.
TEST(StructureTest, TwoForwardRunsBeforeEveryBackwardRun) {
  StructureCalls calls;
  const Classifier network = {{784, 256, 64}};
  for (int step = 0; step < 5; ++step) {
    network.Forward(calls, 8, 0);
    network.Forward(calls, 8, 1);
    network.Backward(calls, 8, 1, false);
    network.Backward(calls, 8, 0, false);
  }
  EXPECT_EQ(calls.Check().layers.size(), 2u);
}

TEST(StructureTest, RecomputedActivations) {
  const std::vector<Conv> convs = {{3, 8, 16}, {8, 16, 16}, {16, 16, 16}, {16, 16, 16}, {16, 16, 16}};
  StructureCalls calls;
  const auto again = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      calls.OneDnnConv(convs[i], 4, kForward, absl::StrCat("conv", i + 1, " recompute"));
    }
    for (size_t i = end; i-- > begin;) {
      const std::string layer = absl::StrCat("conv", i + 1);
      calls.OneDnnConv(convs[i], 4, kData, layer + " backward-data");
      calls.OneDnnConv(convs[i], 4, kWeights, layer + " backward-weights");
    }
  };
  const Classifier classifier = {{4096, 10}};
  for (int step = 0; step < 4; ++step) {
    ForwardConvs(calls, convs, 4);
    classifier.Forward(calls, 4, step);
    classifier.Backward(calls, 4, step);
    again(3, 5);
    again(1, 3);
    again(0, 1);
  }
  EXPECT_EQ(calls.Check().layers.size(), 6u);
}

// One of two equal layers is recomputed before both backward passes: it may be either.
TEST(StructureTest, ARecomputedLayerAmongEqualShapesIsAmbiguous) {
  StructureCalls calls;
  const Classifier classifier = {{4096, 10}};
  const std::vector<Conv> convs = {{3, 8, 16}, {8, 8, 16}, {8, 8, 16}};
  for (int step = 0; step < 4; ++step) {
    ForwardConvs(calls, convs, 4);
    classifier.Forward(calls, 4, step);
    classifier.Backward(calls, 4, step);
    calls.OneDnnConv(convs[2], 4, kForward, "conv3 recompute");
    BackwardConvs(calls, convs, 4);
  }
  EXPECT_THAT(LayerNamed(calls.Check(), "conv2").ambiguity, HasSubstr("several readings"));
}

TEST(StructureTest, FrozenLayersRunForwardOnly) {
  StructureCalls calls;
  const Classifier classifier = {{4096, 64, 10}};
  for (int step = 0; step < 4; ++step) {
    ForwardConvs(calls, kVgg, 8);
    classifier.Forward(calls, 8, step);
    classifier.Backward(calls, 8, step, /*first_has_data=*/false);
  }
  EXPECT_EQ(calls.Check().layers.size(), 8u);
}

TEST(StructureTest, FrozenLayerAmongEqualShapes) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, kVgg, 8);
    calls.OneDnnConv(kVgg[5], 8, kData, "conv6 backward-data");
    calls.OneDnnConv(kVgg[5], 8, kData, "conv5 backward-data");
    calls.OneDnnConv(kVgg[5], 8, kWeights, "conv5 backward-weights");
    BackwardConvs(calls, {kVgg[0], kVgg[1], kVgg[2], kVgg[3]}, 8);
  }
  EXPECT_THAT(LayerNamed(calls.Check(), "conv6").ambiguity, HasSubstr("several readings"));
}

TEST(StructureTest, AttentionHeadByHead) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    calls.Linear(128, 64, 192, 0x1000, 0x2000, 0x3000, "fc1");
    for (uint64_t head = 0; head < 8; ++head) {
      calls.Slice(16, "TN", 512, 0x3000 + head, 0x3100 + head, 0x4000, "attention1 forward");
      calls.Slice(16, "NN", 512, 0x3200 + head, 0x4000, 0x5000, "attention1 forward");
    }
    calls.Linear(128, 64, 10, 0x6000, 0x7000, 0x8000, "fc2");
    calls.LinearBackward(128, 64, 10, 0x6000, 0x7000, 0x9000, "fc2");
    for (uint64_t head = 0; head < 8; ++head) {
      calls.Slice(16, "TN", 512, 0x3000 + head, 0x3100 + head, 0x4000, "attention1 backward");
      calls.Slice(16, "NT", 512, 0x9100 + head, 0x4000, 0x5000, "attention1 backward");
    }
    calls.LinearBackward(128, 64, 192, 0x1000, 0x2000, 0x9200, "fc1", false);
  }
  EXPECT_THAT(NamesOf(calls.Check()), ElementsAre("fc1", "attention1", "fc2"));
}

TEST(StructureTest, ALayerUsedTwiceIsOneLayer) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    calls.Linear(8, 32, 32, 0x1000, 0x2000, 0x3000, "fc1");
    calls.Linear(8, 32, 64, 0x3100, 0x4000, 0x5000, "fc2");
    calls.Linear(8, 32, 32, 0x5100, 0x2000, 0x6000, "fc1");
    calls.Linear(8, 32, 10, 0x6100, 0x7000, 0x8000, "fc3");
    calls.LinearBackward(8, 32, 10, 0x6100, 0x7000, 0x9000, "fc3");
    calls.LinearBackward(8, 32, 32, 0x5100, 0x2000, 0x9100, "fc1");
    calls.LinearBackward(8, 32, 64, 0x3100, 0x4000, 0x9200, "fc2");
    calls.LinearBackward(8, 32, 32, 0x1000, 0x2000, 0x9300, "fc1");
  }
  EXPECT_EQ(calls.Check().layers.size(), 3u);
}

TEST(StructureTest, TwoNetworksInTurn) {
  StructureCalls calls;
  const Classifier classifier = {{784, 256, 10}};
  for (int step = 0; step < 4; ++step) {
    ForwardConvs(calls, kAlexNet, 8);
    BackwardConvs(calls, kAlexNet, 8);
    classifier.Forward(calls, 8, step);
    classifier.Backward(calls, 8, step, false);
  }
  const Attribution found = calls.Check();
  EXPECT_NE(LayerNamed(found, "conv1").model, LayerNamed(found, "fc1").model);
  EXPECT_EQ(LayerNamed(found, "conv1").model, LayerNamed(found, "conv5").model);
}

constexpr char kOpen[] = "products, ambiguous unknown";

TEST(StructureTest, ProductsOfAnyProgramAreNoLayers) {
  StructureCalls calls;
  for (uint64_t i = 0; i < 50; ++i) {
    calls.Gemm(20, 30, 40, "NN", 0x1000, 0x2000, 0x3000, kOpen);
    calls.Gemm(50, 60, 70, "NN", 0x4000, 0x5000, 0x6000, kOpen);
  }
  EXPECT_THAT(calls.Check().layers, SizeIs(1));
}

// A decomposition (gensim's LsiModel): different products in each round, without backward passes.
TEST(StructureTest, WhatRunsNowAndThenIsNoNetwork) {
  StructureCalls calls;
  for (uint64_t i = 0; i < 8; ++i) {
    calls.Gemm(500, 40, 500, "NN", 0x1000, 0x10000 + i * 0x1000, 0x3000, kOpen);
    calls.Gemm(500, 40, 40, "NN", 0x3000, 0x30000 + i * 0x1000, 0x5000, kOpen);
    calls.Gemm(40 + i, 40, 500, "TN", 0x40000 + i * 0x1000, 0x5000, 0x7000, kOpen);
  }
  EXPECT_THAT(calls.Check().layers, SizeIs(1));
}

// Products before the network (a preprocessing step) are not taken for its first layer.
TEST(StructureTest, OtherProductsBeforeTheNetwork) {
  StructureCalls calls;
  calls.Gemm(20, 20, 20, "NN", 0x10, 0x20, 0x30, "");
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, kAlexNet, 8);
    BackwardConvs(calls, kAlexNet, 8);
  }
  EXPECT_EQ(calls.Check().layers.size(), 5u);
}

TEST(StructureTest, ReordersBelongToWhatNeedsThem) {
  StructureCalls calls;
  const std::vector<Conv> convs = {{16, 16, 32}, {16, 16, 32}};
  for (int step = 0; step < 3; ++step) {
    for (const char* layer : {"conv1 forward", "conv2 forward"}) {
      calls.Reorder("8x16x32x32", "abcd", "aBcd16b", layer);
      calls.Reorder("16x16x3x3", "abcd", "ABcd16b16a", layer);
      calls.OneDnnConv(convs[0], 8, kForward, layer);
      calls.Reorder("8x16x32x32", "aBcd16b", "abcd", layer);
    }
    for (const char* layer : {"conv2", "conv1"}) {
      const std::string data = absl::StrCat(layer, " backward-data");
      const std::string weights = absl::StrCat(layer, " backward-weights");
      calls.Reorder("8x16x32x32", "abcd", "aBcd16b", data);
      calls.OneDnnConv(convs[0], 8, kData, data);
      calls.Reorder("8x16x32x32", "aBcd16b", "abcd", data);
      calls.OneDnnConv(convs[0], 8, kWeights, weights);
      calls.Reorder("16", "a", "a", weights);
      calls.Reorder("16x16x3x3", "ABcd16b16a", "abcd", weights);
    }
    calls.Reorder("7x9", "ab", "ba", "");
  }
  const Attribution found = calls.Check();
  EXPECT_EQ(found.oddities.at("a layout conversion that no neighbouring layer explains"), 3);
}

// Where im2col and a product compute the filter's gradient, it has the plain format in which the next layer's filter
// still is.
TEST(StructureTest, AFilterIsPreparedForTheNextLayerAfterAGradientOfItsSize) {
  StructureCalls calls;
  const Conv conv = {16, 16, 32};
  const std::string problem = "mb8_ic16oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1";
  for (int step = 0; step < 3; ++step) {
    for (const char* layer : {"conv1 forward", "conv2 forward", "conv3 forward"}) {
      calls.OneDnnConv(conv, 8, kForward, layer);
    }
    for (const char* layer : {"conv3", "conv2", "conv1"}) {
      const std::string weights = absl::StrCat(layer, " backward-weights");
      calls.Reorder("16x16x3x3", "abcd", "ABcd16b16a", absl::StrCat(layer, " backward-data"));
      calls.OneDnnConv(conv, 8, kData, absl::StrCat(layer, " backward-data"));
      calls.OneDnn("convolution", kWeights,
                   "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:abcd::f0 dst:f32:a:blocked:abcd::f0",
                   "alg:convolution_direct", problem, weights);
      calls.Reorder("16x16x3x3", "abcd", "abcd", weights);
    }
  }
  EXPECT_EQ(calls.Check().layers.size(), 3u);
}

TEST(StructureTest, BackwardWorkWithoutItsForwardIsCounted) {
  StructureCalls calls;
  for (int step = 0; step < 3; ++step) {
    ForwardConvs(calls, kAlexNet, 8);
    calls.OneDnnConv({7, 9, 11}, 8, kWeights, "");
    BackwardConvs(calls, kAlexNet, 8);
  }
  EXPECT_EQ(calls.Check().oddities.at(
                "a backward call without the forward call of its layer (by operands, shapes and order)"),
            3);
}

TEST(StructureTest, EmptyRun) { EXPECT_THAT(StructureCalls().Check().layers, IsEmpty()); }

}  // namespace structure_test
}  // namespace dlhook::analyzer
