// A training that PyTorch records, for tests of tables and of the answer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/analyzer/layers/torch_recorder.h"

namespace dlhook::analyzer {

struct LinearTrainingOptions {
  int steps = 8;
  int validations = 0;  // after the training
  std::vector<std::string> layers = {"block.fc1", "block.fc2"};
  std::pair<int, int64_t> wait = {-1, 0};  // in which step nothing happens for how many ns, after the optimizer …
  int wait_every = 0;                      // … and in each step that is so many before or after it
  bool has_metric = false;                 // torchmetrics': a module of two operations after each step
};

// Steps of a network of linear layers, with an optimizer and some Python in between.
inline TraceModel LinearTraining(const LinearTrainingOptions& options) {
  constexpr char kTorch[] = "/v/site-packages/torch/nn/modules/module.py";
  TorchRecorder recorder;
  ModelBuilder& builder = recorder.builder();
  recorder.set_gemm(builder.AddOp(GemmDefinition(120, 4, 256, "TN")));
  const ModuleIndex net = builder.AddModule("__main__.Net", {""});
  std::vector<StackIndex> stacks;
  for (const std::string& name : options.layers) {
    const ModuleIndex layer = builder.AddModule("torch.nn.modules.linear.Linear", {name}, net, net);
    stacks.push_back(builder.AddStack({{kTorch, "Module._wrapped_call_impl", 1775, layer},
                                       {"/home/u/net.py", "Net.forward", 10},
                                       {kTorch, "Module._wrapped_call_impl", 1775, net}}));
  }
  const StackIndex update =
      builder.AddStack({{"/v/site-packages/torch/optim/sgd.py", "SGD.step", 3}, {"/home/u/train.py", "<module>", 9}});
  StackIndex in_metric = kNone;
  if (options.has_metric) {
    in_metric = builder.AddStack({{"/v/site-packages/torchmetrics/metric.py", "Metric.forward", 3},
                                  {kTorch, "Module._wrapped_call_impl", 1775, builder.AddModule("m.Accuracy", {""})},
                                  {"/home/u/train.py", "<module>", 12}});
  }
  for (int step = 0; step < options.steps; ++step) {
    const int64_t first = recorder.next_node();
    for (StackIndex stack : stacks) recorder.Linear(stack);
    for (int64_t node = recorder.next_node() - 1; node > first; node -= 2) {
      recorder.Node("AddmmBackward0", node, {"aten::mm", "aten::mm"});
      recorder.Accumulate();
    }
    recorder.Begin("Optimizer.step#SGD.step", ScopeKind::kUserRange);
    recorder.Op("aten::add_", update, false);
    recorder.End();
    if (options.has_metric) recorder.Op("aten::sum", in_metric, false);
    if (options.has_metric) recorder.Op("aten::div", in_metric, false);
    const bool is_again = options.wait_every > 0 && (step - options.wait.first) % options.wait_every == 0;
    if (step == options.wait.first || is_again) recorder.Wait(options.wait.second);
  }
  for (int i = 0; i < options.validations; ++i) {
    for (StackIndex stack : stacks) recorder.Linear(stack, false);
  }
  return builder.Build();
}

}  // namespace dlhook::analyzer
