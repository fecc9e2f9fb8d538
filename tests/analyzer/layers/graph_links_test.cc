// Layers from the paths of TensorFlow's graph nodes, named as by Keras 3 on TensorFlow 2.21.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/framework_links.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace graph_links_test {

using Kind = ScopeKind;

struct Placed {
  std::string layer;
  std::string type;
  std::string model;
  LayerDirection direction;
};

std::vector<Placed> PlaceNodes(const std::vector<std::string>& nodes, Kind kind = Kind::kGraphNode) {
  ModelBuilder builder;
  int64_t now_ns = 0;
  for (const std::string& node : nodes) builder.Scope(node, kind, now_ns += 100, 50);
  const Attribution attribution = AttributeByFramework(builder.Build());
  std::vector<Placed> placed;
  for (const Place& place : attribution.of_scope) {
    if (place.layer == kNone) {
      placed.push_back({"-", "", "", place.direction});
    } else {
      const Layer& layer = attribution.layers[place.layer];
      placed.push_back({layer.name, layer.type, layer.model, place.direction});
    }
  }
  return placed;
}

TEST(GraphLinksTest, ForwardAndGradientNodesOfAConvolution) {
  const std::string forward = "StatefulPartitionedCall/sequential_1/conv2d_1_2/";
  const std::string gradient = "StatefulPartitionedCall/gradient_tape/sequential_1/conv2d_1_2/";
  const std::vector<Placed> placed = PlaceNodes(
      {forward + "convolution/ReadVariableOp:ReadVariableOp", forward + "Relu:_MklNativeFusedConv2D",
       gradient + "ReluGrad:ReluGrad", gradient + "convolution/Conv2DBackpropInput:_MklNativeConv2DBackpropInput",
       gradient + "convolution/Conv2DBackpropFilter:_MklNativeConv2DBackpropFilterWithBias"});
  const LayerDirection expected[] = {LayerDirection::kForward, LayerDirection::kForward, LayerDirection::kBackward,
                                     LayerDirection::kBackwardData, LayerDirection::kBackwardWeights};
  for (size_t i = 0; i < placed.size(); ++i) {
    EXPECT_EQ(placed[i].layer, "sequential_1/conv2d_1_2") << i;
    EXPECT_EQ(placed[i].type, "convolution") << i;
    EXPECT_EQ(placed[i].model, "sequential_1") << i;
    EXPECT_EQ(placed[i].direction, expected[i]) << i;
  }
}

TEST(GraphLinksTest, ProductsOfADenseLayer) {
  const std::string gradient = "StatefulPartitionedCall/gradient_tape/sequential_1/";
  const std::vector<Placed> placed =
      PlaceNodes({"StatefulPartitionedCall/sequential_1/first/BiasAdd:_MklNativeFusedMatMul",
                  "StatefulPartitionedCall/sequential_1/dense_1/Relu:_MklNativeFusedMatMul",
                  gradient + "dense_1/BiasAdd/BiasAddGrad:BiasAddGrad", gradient + "dense_1/MatMul/MatMul:_MklMatMul",
                  gradient + "dense_1/MatMul/MatMul_1:_MklMatMul", gradient + "first/MatMul/MatMul:_MklMatMul"});
  EXPECT_EQ(placed[2].direction, LayerDirection::kBackwardBias);
  EXPECT_EQ(placed[3].direction, LayerDirection::kBackwardData);
  EXPECT_EQ(placed[4].direction, LayerDirection::kBackwardWeights);
  EXPECT_EQ(placed[5].direction, LayerDirection::kBackwardWeights);  // the network's input has no gradient
  EXPECT_EQ(placed[5].layer, "sequential_1/first");
  EXPECT_EQ(placed[5].type, "matmul");  // from its kernel: the name is the user's
}

TEST(GraphLinksTest, ALoneGradientOfALayerWhoseWeightsMayBeFrozen) {
  const std::string gradient = "StatefulPartitionedCall/gradient_tape/net/";
  const std::vector<Placed> placed =
      PlaceNodes({"net/first/Relu:_MklNativeFusedMatMul", "net/frozen/Relu:_MklNativeFusedMatMul",
                  "net/tower/BiasAdd:_MklNativeFusedMatMul", gradient + "first/MatMul/MatMul:_MklMatMul",
                  gradient + "frozen/MatMul/MatMul:_MklMatMul", gradient + "tower/BiasAdd/BiasAddGrad:BiasAddGrad",
                  gradient + "tower/MatMul/MatMul:_MklMatMul"});
  EXPECT_EQ(placed[3].direction, LayerDirection::kBackwardWeights);
  EXPECT_EQ(placed[4].direction, LayerDirection::kBackward);
  EXPECT_EQ(placed[6].direction, LayerDirection::kBackwardWeights);  // its bias is trained
}

TEST(GraphLinksTest, ScopesInsideALayerAreNoLayers) {
  for (const Placed& placed : PlaceNodes(
           {"sequential_1/batch_normalization_1/Cast/ReadVariableOp:ReadVariableOp",
            "sequential_1/batch_normalization_1/batchnorm/mul_1:Mul", "sequential_1/batch_normalization_1/add:AddV2",
            "StatefulPartitionedCall/gradient_tape/sequential_1/batch_normalization_1/moments/truediv_1:Mul"})) {
    EXPECT_EQ(placed.layer, "sequential_1/batch_normalization_1");
    EXPECT_EQ(placed.type, "batch norm");
  }
}

TEST(GraphLinksTest, OptimizerLossAndMetrics) {
  const std::vector<Placed> placed = PlaceNodes(
      {"StatefulPartitionedCall/sgd/Mul_3:Mul", "StatefulPartitionedCall/AssignVariableOp_1:AssignVariableOp",
       "StatefulPartitionedCall/compile_loss/sparse_categorical_crossentropy/Sum:Sum"});
  EXPECT_EQ(placed[0].layer, "optimizer (sgd)");
  EXPECT_EQ(placed[0].direction, LayerDirection::kUpdate);
  EXPECT_EQ(placed[1].layer, "-");
  EXPECT_EQ(placed[2].layer, "compile_loss/sparse_categorical_crossentropy");
  EXPECT_EQ(placed[2].type, "loss");
}

TEST(GraphLinksTest, LayersAreInTheOrderOfTheirLastNodesNotOfTheirVariables) {
  const std::vector<std::string> nodes = {"net/dense_2/Cast/ReadVariableOp:ReadVariableOp", "net/dense_2/mul_1:Mul",
                                          "net/conv2d/Relu:_MklNativeFusedConv2D", "net/dense_2/MatMul:_MklMatMul"};
  ModelBuilder builder;
  int64_t now_ns = 0;
  for (int step = 0; step < 2; ++step) {
    for (const std::string& node : nodes) builder.Scope(node, Kind::kGraphNode, now_ns += 100, 50);
  }
  const Attribution attribution = AttributeByFramework(builder.Build());
  ASSERT_EQ(attribution.layers.size(), 2u);
  EXPECT_EQ(attribution.layers[0].name, "net/conv2d");
  EXPECT_EQ(attribution.layers[1].name, "net/dense_2");
}

TEST(GraphLinksTest, OtherKindsOfScopesAreNotRead) {
  EXPECT_EQ(PlaceNodes({"sequential_1/conv2d_1/Relu:Conv2D"}, Kind::kTraceMe)[0].layer, "-");
}

TEST(CompiledRangesTest, AllInsideAProgramOfXlasIsOneRegion) {
  ModelBuilder builder;
  builder.Scope("XLA runs jit_train_step", Kind::kNvtxRange, 0, 100);
  builder.Scope("a library's range", Kind::kNvtxRange, 10, 20);
  builder.Scope("my range", Kind::kNvtxRange, 200, 20);
  const Attribution attribution = AttributeByFramework(builder.Build());
  ASSERT_EQ(attribution.layers.size(), 1u);
  EXPECT_EQ(attribution.layers[0].name, "compiled by XLA: jit_train_step");
  EXPECT_TRUE(attribution.layers[0].is_compiled_region);
  EXPECT_EQ(attribution.of_scope[1].layer, 0u);
  EXPECT_EQ(attribution.of_scope[2].layer, kNone);
}

TEST(CompiledRangesTest, TorchCompileIsOneRegionForwardAndBackward) {
  ModelBuilder builder;
  builder.Scope("Torch-Compiled Region: 0/0", Kind::kUserRange, 0, 100);
  builder.Scope("aten::addmm", Kind::kFrameworkOp, 10, 20);
  builder.Scope("CompiledFunctionBackward", Kind::kBackwardNode, 200, 50, 0, 1);
  const Attribution attribution = AttributeByFramework(builder.Build());
  ASSERT_EQ(attribution.layers.size(), 1u);
  EXPECT_EQ(attribution.layers[0].name, "compiled region 0/0");
  EXPECT_EQ(attribution.of_scope[1].direction, LayerDirection::kForward);
  EXPECT_EQ(attribution.of_scope[2].layer, 0u);
  EXPECT_EQ(attribution.of_scope[2].direction, LayerDirection::kBackward);
}

}  // namespace graph_links_test
}  // namespace dlhook::analyzer
