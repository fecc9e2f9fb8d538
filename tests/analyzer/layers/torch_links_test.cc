// Layers from PyTorch's scopes, on networks written as PyTorch records them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/layers/framework/framework_links.h"
#include "tests/analyzer/layers/torch_recorder.h"

namespace dlhook::analyzer {
namespace torch_links_test {

using Kind = ScopeKind;
using ::testing::ElementsAre;

constexpr char kTorch[] = "/v/site-packages/torch/nn/modules/module.py";

std::vector<std::string> LayerNames(const Attribution& attribution) {
  std::vector<std::string> names;
  for (const Layer& layer : attribution.layers) names.push_back(layer.name);
  return names;
}

// "fc1 backward-data" for each scope with the name, in order.
std::vector<std::string> PlacesOf(const TraceModel& model, const Attribution& attribution, const std::string& name) {
  std::vector<std::string> places;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (model.names[model.scopes.look[scope].name] != name) continue;
    const Place& place = attribution.of_scope[scope];
    places.push_back((place.layer == kNone ? "-" : attribution.layers[place.layer].name) + " " +
                     LayerDirectionName(place.direction));
  }
  return places;
}

std::vector<std::string> PlacesOfCalls(const TraceModel& model, const Attribution& attribution) {
  std::vector<std::string> places;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Place& place = attribution.of_call[call];
    places.push_back((place.layer == kNone ? "-" : attribution.layers[place.layer].name) + " " +
                     LayerDirectionName(place.direction));
  }
  return places;
}

// A network of two linear layers with a functional relu between them: modules, stacks, and its training step.
class NetTest : public testing::Test {
 protected:
  NetTest() {
    ModelBuilder& builder = recorder_.builder();
    recorder_.set_gemm(builder.AddOp(GemmDefinition(120, 4, 256, "TN")));
    net_ = builder.AddModule("__main__.Net", {""});
    fc1_ = builder.AddModule("torch.nn.modules.linear.Linear", {"fc1"}, net_, net_);
    fc2_ = builder.AddModule("torch.nn.modules.linear.Linear", {"fc2"}, net_, net_);
    loss_ = builder.AddModule("torch.nn.modules.loss.CrossEntropyLoss", {""});
  }

  StackIndex InNet(int line, ModuleIndex module = kNone) {
    std::vector<ModelBuilder::Frame> frames;
    if (module != kNone) frames.push_back({kTorch, "Module._wrapped_call_impl", 1775, module});
    frames.push_back({"/home/u/net.py", "Net.forward", static_cast<uint32_t>(line)});
    frames.push_back({kTorch, "Module._wrapped_call_impl", 1775, net_});
    frames.push_back({"/home/u/train.py", "<module>", 40});
    return recorder_.builder().AddStack(frames);
  }
  StackIndex InProgram(int line) {
    return recorder_.builder().AddStack({{"/home/u/train.py", "<module>", static_cast<uint32_t>(line)}});
  }

  void Forward() {
    recorder_.Op("aten::flatten", InNet(9));
    recorder_.Linear(InNet(10, fc1_));
    recorder_.Op("aten::relu", InNet(10));
    recorder_.Linear(InNet(11, fc2_));
    const StackIndex in_loss = recorder_.builder().AddStack(
        {{kTorch, "Module._wrapped_call_impl", 1775, loss_}, {"/home/u/train.py", "<module>", 41}});
    recorder_.Op("aten::cross_entropy_loss", in_loss);
  }
  // Nodes of a Forward whose first sequence number was `first`: flatten 0, t 1, addmm 2, relu 3, t 4, addmm 5, loss 6.
  void Backward(int64_t first) {
    recorder_.Node("NllLossBackward0", first + 6);
    LinearBackward(first + 5, true);
    recorder_.Node("ReluBackward0", first + 3);
    LinearBackward(first + 2, false);
    recorder_.Node("ViewBackward0", first);
  }
  void LinearBackward(int64_t addmm, bool has_data) {
    recorder_.Begin("autograd::engine::evaluate_function: AddmmBackward0", Kind::kFrameworkOp);
    recorder_.Begin("AddmmBackward0", Kind::kBackwardNode, addmm);
    for (int i = has_data ? 0 : 1; i < 2; ++i) {
      recorder_.Begin("aten::mm", Kind::kFrameworkOp);
      recorder_.Call(
          recorder_.builder().AddOp(i == 0 ? GemmDefinition(256, 4, 120, "NN") : GemmDefinition(256, 120, 4, "NT")));
      recorder_.End();
    }
    recorder_.End();
    recorder_.Begin("aten::sum", Kind::kFrameworkOp);
    recorder_.End();
    recorder_.End();
    recorder_.Accumulate();
    recorder_.Node("TBackward0", addmm - 1, {"aten::t"});
    recorder_.Accumulate();
  }
  void Update() {
    recorder_.Begin("Optimizer.step#SGD.step", Kind::kUserRange);
    recorder_.Op("aten::add_", InProgram(44), false);
    recorder_.End();
  }

  TorchRecorder recorder_;
  ModuleIndex net_, fc1_, fc2_, loss_;
};

TEST_F(NetTest, TrainingStepsGiveLayersInOrderWithTheirNames) {
  for (int step = 0; step < 3; ++step) {
    const int64_t first = recorder_.next_node();
    recorder_.Op("TorchDynamo Cache Lookup", InNet(8), false);  // no layer
    Forward();
    Backward(first);
    Update();
  }
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(LayerNames(attribution), ElementsAre("fc1", "Net:relu", "fc2", "CrossEntropyLoss", "optimizer (SGD)"));
  EXPECT_EQ(attribution.layers[0].model, "Net");
  EXPECT_EQ(attribution.layers[0].type, "linear");
  EXPECT_EQ(attribution.layers[0].module_type, "Linear");
  EXPECT_EQ(attribution.layers[0].line, "net.py:10");
  EXPECT_EQ(attribution.layers[0].evidence, Evidence::kFramework);
  EXPECT_EQ(attribution.layers[3].type, "loss");
  EXPECT_TRUE(attribution.oddities.empty());
}

TEST_F(NetTest, BackwardNodesBelongToTheLayerOfTheirForwardOp) {
  Forward();
  Backward(0);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "AddmmBackward0"), ElementsAre("fc2 backward", "fc1 backward"));
  EXPECT_THAT(PlacesOf(model, attribution, "autograd::engine::evaluate_function: AddmmBackward0"),
              ElementsAre("fc2 backward", "fc1 backward"));
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"), ElementsAre("Net:relu backward"));
  EXPECT_THAT(PlacesOf(model, attribution, "NllLossBackward0"), ElementsAre("CrossEntropyLoss backward"));
  EXPECT_THAT(PlacesOf(model, attribution, "ViewBackward0"),
              ElementsAre("fc1 backward"));  // the view belongs to the layer that needs it
  EXPECT_THAT(PlacesOf(model, attribution, "TBackward0"), ElementsAre("fc2 backward-weights", "fc1 backward-weights"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::sum"), ElementsAre("fc2 backward-bias", "fc1 backward-bias"));
  EXPECT_THAT(
      PlacesOf(model, attribution, "torch::autograd::AccumulateGrad"),
      ElementsAre("fc2 backward-weights", "fc2 backward-weights", "fc1 backward-weights", "fc1 backward-weights"));
}

TEST_F(NetTest, ProductsOfABackwardNodeAreDataThenWeightsAndASingleOneIsToldByItsShape) {
  Forward();
  Backward(0);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOfCalls(model, attribution), ElementsAre("fc1 forward", "fc2 forward", "fc2 backward-data",
                                                             "fc2 backward-weights", "fc1 backward-weights"));
}

TEST_F(NetTest, ASingleProductOverTheOutputsIsBackwardData) {
  recorder_.Linear(InNet(10, fc1_));  // frozen weights: only the input's gradient
  recorder_.BeginNode("AddmmBackward0", 1);
  recorder_.Begin("aten::mm", Kind::kFrameworkOp);
  recorder_.Call(recorder_.builder().AddOp(GemmDefinition(256, 4, 120, "NN")));
  recorder_.End();
  recorder_.EndNode();
  const TraceModel model = recorder_.builder().Build();
  EXPECT_THAT(PlacesOfCalls(model, AttributeByFramework(model)), ElementsAre("fc1 forward", "fc1 backward-data"));
}

TEST_F(NetTest, OfSeveralOpsThatPeekedAtANumberTheLastOneMadeTheNode) {
  recorder_.Op("aten::mean", InProgram(3), false);
  recorder_.Op("aten::sub", InProgram(4), false);
  recorder_.Op("aten::relu", InNet(10));
  recorder_.Op("aten::tanh", InNet(11));
  recorder_.Node("TanhBackward0", 1);
  recorder_.Node("ReluBackward0", 0);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(LayerNames(attribution), ElementsAre("Net:relu", "Net:tanh"));
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"), ElementsAre("Net:relu backward"));
}

TEST_F(NetTest, BackwardOnTheEnginesThreadFindsItsForwardThread) {
  const ThreadIndex engine = recorder_.builder().AddThread();
  Forward();
  recorder_.SwitchTo(engine);
  Backward(0);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"), ElementsAre("Net:relu backward"));
  EXPECT_TRUE(attribution.oddities.empty());
}

TEST_F(NetTest, RecomputationIsADirectionOfItsOwnInTheSameLayer) {
  Forward();
  recorder_.BeginNode("AddmmBackward0", 5);
  recorder_.Linear(
      recorder_.builder().AddStack({{kTorch, "Module._wrapped_call_impl", 1775, fc1_},
                                    {"/v/site-packages/torch/utils/checkpoint.py", "recompute_fn", 7},
                                    {"/v/site-packages/torch/autograd/graph.py", "_engine_run_backward", 8},
                                    {"/home/u/train.py", "<module>", 43}}));
  recorder_.EndNode();
  const TraceModel model = recorder_.builder().Build();
  EXPECT_THAT(PlacesOf(model, AttributeByFramework(model), "aten::linear"),
              ElementsAre("fc1 forward", "fc2 forward", "fc1 recompute"));
}

TEST_F(NetTest, AnOpCalledOnSeveralLinesIsNumberedAndASharedModuleIsOneLayer) {
  for (int step = 0; step < 2; ++step) {
    const int64_t first = recorder_.next_node();
    recorder_.Linear(InNet(10, fc1_));
    recorder_.Op("aten::relu", InNet(10));
    recorder_.Linear(InNet(11, fc1_));
    recorder_.Op("aten::relu", InNet(11));
    recorder_.Node("ReluBackward0", first + 5);
    recorder_.Node("AddmmBackward0", first + 4);
    recorder_.Node("ReluBackward0", first + 2);
    recorder_.Node("AddmmBackward0", first + 1);
  }
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(LayerNames(attribution), ElementsAre("fc1", "Net:relu", "Net:relu#2"));
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"),
              ElementsAre("Net:relu#2 backward", "Net:relu backward", "Net:relu#2 backward", "Net:relu backward"));
}

TEST_F(NetTest, WithoutModulesALineInALoopIsSeveralLayersInEachPass) {
  for (int step = 0; step < 2; ++step) {
    const int64_t first = recorder_.next_node();
    for (int i = 0; i < 3; ++i) recorder_.Op("aten::conv2d", InProgram(17));
    for (int i = 2; i >= 0; --i) recorder_.Node("ConvolutionBackward0", first + i);
  }
  for (int i = 0; i < 6; ++i) recorder_.Op("aten::conv2d", InProgram(17), false);  // two evaluations
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(LayerNames(attribution),
              ElementsAre("train.py:17 conv2d", "train.py:17 conv2d #2", "train.py:17 conv2d #3"));
  const std::vector<std::string> forward = PlacesOf(model, attribution, "aten::conv2d");
  for (size_t i = 0; i < forward.size(); ++i) EXPECT_EQ(forward[i], attribution.layers[i % 3].name + " forward") << i;
}

TEST_F(NetTest, TrainingsInSeveralThreadsHaveNumbersOfTheirOwn) {
  const ThreadIndex other = recorder_.builder().AddThread();
  recorder_.Begin("aten::relu", Kind::kFrameworkOp, 0, InNet(10));
  recorder_.End();
  recorder_.SwitchTo(other);
  recorder_.Begin("aten::relu", Kind::kFrameworkOp, 0, InNet(11));
  recorder_.End();
  recorder_.Node("ReluBackward0", 0);
  recorder_.SwitchTo(0);
  recorder_.Node("ReluBackward0", 0);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"), ElementsAre("Net:relu backward", "Net:relu#2 backward"));
}

TEST_F(NetTest, TheOptimizerIsOneLayerAndItsClosureIsNot) {
  recorder_.Begin("Optimizer.step#LBFGS.step", Kind::kUserRange);
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Node("AddmmBackward0", 1);
  const StackIndex in_step = recorder_.builder().AddStack(
      {{"/v/site-packages/torch/optim/lbfgs.py", "LBFGS.step", 300}, {"/home/u/train.py", "<module>", 44}});
  recorder_.Op("aten::add_", in_step, false);
  recorder_.End();
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "aten::add_"), ElementsAre("optimizer (LBFGS) update"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::linear"), ElementsAre("fc1 forward"));
  EXPECT_THAT(PlacesOf(model, attribution, "AddmmBackward0"), ElementsAre("fc1 backward"));
}

// After the gradients the closure goes on: statistics, which the optimizer's scope contains, too.
TEST_F(NetTest, WhatAClosureComputesIsNotTheOptimizers) {
  ModelBuilder& builder = recorder_.builder();
  const ModelBuilder::Frame step = {"/v/site-packages/torch/optim/adamw.py", "AdamW.step", 200};
  const ModelBuilder::Frame base = {"/v/site-packages/torch/optim/optimizer.py", "wrapper", 530};
  const ModelBuilder::Frame main = {"/home/u/train.py", "<module>", 44};
  const StackIndex in_closure = builder.AddStack({{"/home/u/train.py", "closure", 20}, step, base, main});
  const StackIndex in_step = builder.AddStack({step, base, main});
  recorder_.Begin("Optimizer.step#AdamW.step", Kind::kUserRange, -1, InProgram(44));
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Node("AddmmBackward0", 1);
  recorder_.Op("aten::norm", in_closure, false);
  recorder_.Op("aten::add_", in_step, false);
  recorder_.End();
  const TraceModel model = builder.Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "aten::norm"), ElementsAre("- unknown"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::add_"), ElementsAre("optimizer (AdamW) update"));
  EXPECT_THAT(PlacesOf(model, attribution, "Optimizer.step#AdamW.step"), ElementsAre("optimizer (AdamW) update"));
}

TEST_F(NetTest, WithoutPythonAClosureEndsWithItsGradients) {
  recorder_.Begin("Optimizer.step#AdamW.step", Kind::kUserRange);
  recorder_.Linear(kNone);
  recorder_.Node("AddmmBackward0", 1);
  recorder_.Op("aten::add_", kNone, false);
  recorder_.End();
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "aten::linear"), ElementsAre("fc1 forward"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::add_"), ElementsAre("optimizer (AdamW) update"));
  EXPECT_THAT(PlacesOf(model, attribution, "Optimizer.step#AdamW.step"), ElementsAre("- unknown"));
}

TEST_F(NetTest, AModelReplacedHalfWayIsAnotherModel) {
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Node("AddmmBackward0", 1);
  net_ = recorder_.builder().AddModule("__main__.Net", {""});
  fc1_ = recorder_.builder().AddModule("torch.nn.modules.linear.Linear", {"fc1"}, net_, net_);
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Node("AddmmBackward0", 3);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  ASSERT_EQ(attribution.layers.size(), 2u);
  EXPECT_EQ(attribution.layers[0].model, "Net");
  EXPECT_EQ(attribution.layers[1].model, "Net #2");
}

TEST_F(NetTest, ANodeWhoseForwardWasNotRecordedIsCountedAndPlacedNowhere) {
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Node("ReluBackward0", 77);
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(PlacesOf(model, attribution, "ReluBackward0"), ElementsAre("- backward"));
  EXPECT_EQ(attribution.oddities.size(), 1u);
}

TEST_F(NetTest, WithoutPythonLayersAreCalledAsInTheLiterature) {
  for (int step = 0; step < 2; ++step) {
    const int64_t first = recorder_.next_node();
    recorder_.Op("aten::conv2d", kNone);
    recorder_.Op("aten::relu", kNone);
    recorder_.Op("aten::conv2d", kNone);
    recorder_.Node("ConvolutionBackward0", first + 2);
    recorder_.Node("ReluBackward0", first + 1);
    recorder_.Node("ConvolutionBackward0", first);
  }
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeByFramework(model);
  EXPECT_THAT(LayerNames(attribution), ElementsAre("conv1", "relu1", "conv2"));
  EXPECT_THAT(PlacesOf(model, attribution, "ConvolutionBackward0"),
              ElementsAre("conv2 backward", "conv1 backward", "conv2 backward", "conv1 backward"));
}

// Attention on two threads: half of its products run on an OpenMP thread that otherwise waits for work.
TEST_F(NetTest, CallsOfWorkersBelongToTheOpThatWaitsForThem) {
  ModelBuilder& builder = recorder_.builder();
  const ThreadIndex worker = builder.AddThread();
  const OpIndex gemm = builder.AddOp(GemmDefinition(16, 32, 128, "NN"));
  recorder_.Begin("aten::scaled_dot_product_attention", Kind::kFrameworkOp, 0, InNet(10, fc1_));
  recorder_.Begin("aten::flash_attention", Kind::kFrameworkOp, 0);
  const int64_t start_ns = recorder_.now_ns();
  recorder_.Call(gemm);
  builder.Call(gemm, start_ns + 1, 18, worker);
  builder.Scope("aten::empty", Kind::kFrameworkOp, start_ns + 19, 1, worker);
  recorder_.End();
  recorder_.End();
  builder.Call(gemm, recorder_.now_ns() - 5, 10, worker);  // continues after it: belongs to something else
  const TraceModel model = builder.Build();
  EXPECT_THAT(PlacesOfCalls(model, AttributeToLayers(model, {})),
              ElementsAre("fc1 forward", "fc1 forward", "- unknown"));
}

TEST_F(NetTest, CallsOfWorkersWhileTwoThreadsRunOpsAreNotToldApart) {
  ModelBuilder& builder = recorder_.builder();
  const ThreadIndex second = builder.AddThread(), worker = builder.AddThread();
  const OpIndex gemm = builder.AddOp(GemmDefinition(16, 32, 128, "NN"));
  const StackIndex stack = InNet(10, fc1_);
  builder.Scope("aten::linear", Kind::kFrameworkOp, 100, 100, 0, -1, stack);
  builder.Scope("aten::linear", Kind::kFrameworkOp, 150, 100, second, -1, stack);
  builder.Call(gemm, 110, 20, worker);
  builder.Call(gemm, 160, 20, worker);
  builder.Call(gemm, 210, 20, worker);
  const TraceModel model = builder.Build();
  const Attribution attribution = AttributeToLayers(model, {});
  EXPECT_THAT(PlacesOfCalls(model, attribution), ElementsAre("fc1 forward", "- unknown", "fc1 forward"));
  ASSERT_EQ(attribution.oddities.size(), 1u);
  EXPECT_THAT(attribution.oddities.begin()->first, testing::HasSubstr("is ambiguous"));
  EXPECT_EQ(attribution.oddities.begin()->second, 1);
}

// A thread of the program itself, as its stacks show, does its own work.
TEST_F(NetTest, CallsOfOtherThreadsOfPythonAreNoWorkers) {
  ModelBuilder& builder = recorder_.builder();
  const ThreadIndex other = builder.AddThread();
  builder.Scope("aten::linear", Kind::kFrameworkOp, 100, 100, 0, -1, InNet(10, fc1_));
  builder.Call(builder.AddOp(GemmDefinition(16, 32, 128, "NN")), 110, 20, other);
  builder.StackOfLastCall(InProgram(50));
  const TraceModel model = builder.Build();
  EXPECT_THAT(PlacesOfCalls(model, AttributeToLayers(model, {})), ElementsAre("- unknown"));
}

// y.transpose(1, 2).contiguous().view(…) before fc2: the copy belongs to the network itself, not to its next layer.
TEST_F(NetTest, CopiesInAModulesOwnLinesAreNotItsNextLayers) {
  recorder_.Linear(InNet(10, fc1_));
  recorder_.Op("aten::transpose", InNet(11));
  recorder_.Begin("aten::contiguous", Kind::kFrameworkOp, recorder_.next_node(), InNet(11));
  recorder_.Op("aten::copy_", kNone, false);
  recorder_.End();
  recorder_.Op("aten::view", InNet(11));
  recorder_.Linear(InNet(12, fc2_));
  recorder_.Op("aten::view", InNet(13));  // without a copy, views belong to the layer that needs them
  recorder_.Linear(InNet(14, fc1_));
  const TraceModel model = recorder_.builder().Build();
  const Attribution attribution = AttributeToLayers(model, {});
  EXPECT_THAT(PlacesOf(model, attribution, "aten::contiguous"), ElementsAre("Net:contiguous forward"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::transpose"), ElementsAre("Net:contiguous forward"));
  EXPECT_THAT(PlacesOf(model, attribution, "aten::view"), ElementsAre("Net:contiguous forward", "fc1 forward"));
}

// In evaluation nothing is linked to a backward node: the layers show that the products belong to a forward pass.
TEST_F(NetTest, OpsTakeTheirDirectionFromTheLayersOfTheirCalls) {
  for (int i = 0; i < 3; ++i) recorder_.Linear(InNet(10, fc1_));
  const Table table = RunPass("ops", recorder_.builder().Build());
  EXPECT_EQ(Text(table, RowWhere(table, {{"kind", "gemm"}}), "direction"), "forward");
}

}  // namespace torch_links_test
}  // namespace dlhook::analyzer
