// Which line of a Python stack belongs to the program itself.
#include "analyzer/calls/python_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

using ::testing::ElementsAre;

// Innermost frame first.
std::string LineOf(const std::vector<ModelBuilder::Frame>& frames) {
  ModelBuilder builder;
  builder.AddStack(frames);
  const TraceModel model = builder.Build();
  return LineLabel(model, ReadPythonPlaces(model).front());
}

TEST(PythonPlacesTest, WhatIsInstalledIsNotTheProgram) {
  EXPECT_EQ(LineOf({{"/v/site-packages/paddle/nn/functional/conv.py", "conv2d", 700},
                    {"/v/site-packages/paddle/nn/layer/layers.py", "__call__", 1400},
                    {"/home/u/net.py", "forward", 12},
                    {"/home/u/train.py", "<module>", 40}}),
            "net.py:12");
  EXPECT_EQ(LineOf({{"<__array_function__ internals>", "dot", 180},
                    {"/v/site-packages/numpy/_core/numeric.py", "tensordot", 1200},
                    {"/v/site-packages/chainer/functions/connection/convolution_2d.py", "forward_cpu", 90},
                    {"/usr/lib/python3/dist-packages/theano/compile/function.py", "__call__", 5},
                    {"/home/u/train.py", "<module>", 41}}),
            "train.py:41");
}

TEST(PythonPlacesTest, LinesOfModelsAreWorthALook) {
  EXPECT_EQ(LineOf({{"/v/site-packages/torch/nn/modules/conv.py", "forward", 500},
                    {"/v/site-packages/torchvision/models/resnet.py", "_forward_impl", 268},
                    {"/home/u/train.py", "<module>", 9}}),
            "resnet.py:268");
}

TEST(PythonPlacesTest, AForkedWorkerIsNotAtTheLineOfItsParent) {
  const ModelBuilder::Frame loop = {"/v/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 349};
  const ModelBuilder::Frame parent = {"/home/u/train.py", "<module>", 17};
  EXPECT_EQ(LineOf({{"/v/site-packages/torch/utils/data/_utils/collate.py", "collate", 1}, loop, parent}), "");
  EXPECT_EQ(LineOf({{"/home/u/data.py", "__getitem__", 5}, loop, parent}), "data.py:5");
}

TEST(PythonPlacesTest, AnInstalledPackageThatWasStartedIsTheProgram) {
  EXPECT_EQ(LineOf({{"/v/site-packages/numpy/_core/numeric.py", "dot", 1},
                    {"/v/site-packages/trainer/model.py", "step", 7},
                    {"/v/site-packages/trainer/__main__.py", "<module>", 3},
                    {"<frozen runpy>", "_run_code", 88}}),
            "model.py:7");
  // A framework's program that starts the user's script.
  EXPECT_EQ(LineOf({{"/v/site-packages/torch/nn/functional.py", "linear", 1},
                    {"/home/u/train.py", "<module>", 9},
                    {"/v/site-packages/torch/utils/bottleneck/__main__.py", "<module>", 3},
                    {"<frozen runpy>", "_run_code", 88}}),
            "train.py:9");
  // A framework's own thread.
  EXPECT_EQ(LineOf({{"/v/site-packages/torch/utils/data/_utils/pin_memory.py", "do_one_step", 20},
                    {"/usr/lib/python3.11/threading.py", "_bootstrap", 1002}}),
            "");
}

using Frame = ModelBuilder::Frame;

TEST(PythonPlacesTest, WhatRunsBetweenTwoStacksIsWhatTheyHaveInCommon) {
  const Frame fit = {"/v/site-packages/keras/src/trainer.py", "fit", 300};
  const Frame python = {"/usr/lib/python3.11/contextlib.py", "inner", 3};
  const Frame linear = {"/v/site-packages/torch/nn/modules/linear.py", "forward", 125};
  const Frame train = {"/home/u/train.py", "train", 40}, later = {"/home/u/train.py", "train", 41};
  const auto between = [](const std::vector<Frame>& before, const std::vector<Frame>& after) {
    ModelBuilder builder;
    builder.AddStack(before);
    builder.AddStack(after);
    const TraceModel model = builder.Build();
    return PackageBetween(model, model.python_stacks[0], model.python_stacks[1]);
  };
  EXPECT_EQ(between({linear, python, fit, train}, {python, fit, train}), "keras");
  EXPECT_EQ(between({fit, train}, {fit, later}), "");
  EXPECT_EQ(between({fit, train}, {train}), "");
  EXPECT_EQ(between({linear, train}, {linear, train}), "");
}

// Whose code it is, for stacks without their common end: the optimizer's step, called by train.py.
std::vector<std::string> WhoseCode(std::vector<std::vector<Frame>> stacks) {
  ModelBuilder builder;
  builder.AddModule("__main__.Net", {""});
  for (std::vector<Frame>& frames : stacks) {
    frames.push_back({"/v/site-packages/torch/optim/optimizer.py", "wrapper", 530});
    frames.push_back({"/v/site-packages/torch/optim/lr_scheduler.py", "wrapper", 131});
    frames.push_back({"/home/u/train.py", "<module>", 40});
    builder.AddStack(frames);
  }
  std::vector<std::string> whose;
  for (const PythonPlace& place : ReadPythonPlaces(builder.Build())) {
    whose.push_back(place.is_in_optimizer ? "optimizer" : place.is_called_by_optimizer ? "program" : "neither");
  }
  return whose;
}

TEST(PythonPlacesTest, TheInnermostFrameSaysWhetherItIsTheOptimizers) {
  const Frame step = {"/v/site-packages/torch/optim/adamw.py", "AdamW.step", 200};
  const Frame decorated = {"/v/site-packages/torch/utils/_contextlib.py", "decorate_context", 120};
  const Frame closure = {"/home/u/train.py", "train.<locals>.closure", 20};
  const Frame lightning = {"/v/site-packages/lightning/pytorch/loops/optimization/automatic.py", "Closure.closure",
                           126};
  EXPECT_THAT(WhoseCode({{step},
                         {{"/v/site-packages/torch/_tensor.py", "Tensor.__add__", 1}, step},
                         {closure, decorated, step},
                         {{"/v/site-packages/torch/nn/utils/clip_grad.py", "clip_grad_norm_", 9}, closure, step},
                         {lightning, step},
                         {{"/v/site-packages/torch/optim/optimizer.py", "Optimizer.zero_grad", 90}, closure, step},
                         {{"/home/u/train.py", "print_norms", 3}},  // a hook
                         {{"/usr/lib/python3.11/contextlib.py", "inner", 3}, step},
                         {{"/tmp/torchinductor_u/ab/cab.py", "call", 3}, step}}),
              ElementsAre("optimizer", "optimizer", "program", "program", "program", "optimizer", "program",
                          "optimizer", "optimizer"));
}

TEST(PythonPlacesTest, AStepThatIsNotPyTorchsIsAnOptimizerToo) {
  const Frame step = {"/home/u/lion.py", "Lion.step", 20};
  const Frame packaged = {"/v/site-packages/timm/optim/lion.py", "Lion.step", 20};
  const Frame closure = {"/home/u/train.py", "closure", 9};
  const Frame net = {"/v/site-packages/torch/nn/modules/module.py", "_wrapped_call_impl", 1775, 0};
  EXPECT_THAT(WhoseCode({{step},
                         {packaged},
                         {{"/home/u/lion.py", "update", 7}, step},
                         {{"/home/u/lion.py", "helper", 9}, {"/home/u/lion.py", "update", 7}, step},
                         {{"/home/u/stats.py", "sort", 9}, closure, step},
                         {net, closure, step}}),
              ElementsAre("optimizer", "optimizer", "optimizer", "optimizer", "program", "program"));
}

TEST(PythonPlacesTest, SchedulersAndAveragesAreNoOptimizers) {
  ModelBuilder builder;
  for (const char* file : {"lr_scheduler.py", "swa_utils.py"}) {
    builder.AddStack({{std::string("/v/site-packages/torch/optim/") + file, "step", 3}, {"/home/u/train.py", "f", 4}});
  }
  for (const PythonPlace& place : ReadPythonPlaces(builder.Build())) EXPECT_FALSE(place.is_in_optimizer);
}

}  // namespace
}  // namespace dlhook::analyzer
