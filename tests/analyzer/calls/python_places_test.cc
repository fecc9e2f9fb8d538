// Which line of a Python stack belongs to the program itself.
#include "analyzer/calls/python_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

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

}  // namespace
}  // namespace dlhook::analyzer
