// Regions of torch.compile: their names, which backward pass is whose, and the modules of operators that compiled code
// calls. Scopes as PyTorch 2.13 reports them; what it kept as preload/python/compiled_code.py reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/layers/framework/framework_links.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace compiled_kernels_test {

using Kind = ScopeKind;
using testing::ElementsAre;
using testing::Key;
using testing::Pair;

struct Kernel {
  std::string op;
  std::string module;
  CompiledPart part = CompiledPart::kUnknown;
  bool by_order = false;
};

class Program {
 public:
  // torch.compile(Net()), and its call.
  Program() {
    const ModuleIndex root = builder_.AddModule("torch._dynamo.eval_frame.OptimizedModule", {""});
    const ModuleIndex net = builder_.AddModule("__main__.Net", {"_orig_mod"}, root, root);
    stack_ = builder_.AddStack({{"/l/torch/nn/modules/module.py", "_call_impl", 1, net},
                                {"/l/torch/nn/modules/module.py", "_call_impl", 1, root},
                                {"/home/u/train.py", "<module>", 9}});
  }

  void Compilation(const std::string& region, const std::string& function, uint32_t line) {
    builder_.model().compiled.push_back({.kind = CompiledKind::kCompilation,
                                         .region = region,
                                         .file = "/home/u/net.py",
                                         .line = line,
                                         .function = function});
  }

  void Kernels(const std::string& region, bool is_backward, const std::vector<Kernel>& kernels, int64_t graph = 0) {
    for (const Kernel& kernel : kernels) {
      builder_.model().compiled.push_back({.kind = CompiledKind::kKernel,
                                           .region = region,
                                           .is_backward = is_backward,
                                           .count = graph,
                                           .function = kernel.op,
                                           .module = kernel.module,
                                           .part = kernel.part,
                                           .by_order = kernel.by_order});
    }
  }

  void Scope(const std::string& name, Kind kind, int64_t start_ns, int64_t ns, int64_t link = -1,
             StackIndex stack = kNone) {
    builder_.Scope(name, kind, start_ns, ns, 0, link, stack);
  }

  // 100 ns each from `start_ns` on, beginning 10 ns after the region.
  void Forward(const std::string& region, int64_t start_ns, const std::vector<std::string>& ops, int64_t link) {
    Forward(region, start_ns, ops, link, stack_);
  }
  void Forward(const std::string& region, int64_t start_ns, const std::vector<std::string>& ops, int64_t link,
               StackIndex stack) {
    const auto ns = static_cast<int64_t>(ops.size()) * 100 + 20;
    Scope("Torch-Compiled Region: " + region, Kind::kFrameworkOp, start_ns, ns, -1, stack);
    Scope("CompiledFunction", Kind::kFrameworkOp, start_ns + 5, ns - 10, link);
    for (size_t i = 0; i < ops.size(); ++i) {
      Scope(ops[i], Kind::kFrameworkOp, start_ns + 10 + static_cast<int64_t>(i) * 100, 90);
    }
  }

  void Backward(int64_t start_ns, const std::vector<std::string>& ops, int64_t link) {
    const auto ns = static_cast<int64_t>(ops.size()) * 100 + 20;
    Scope("CompiledFunctionBackward", Kind::kBackwardNode, start_ns, ns, link);
    for (size_t i = 0; i < ops.size(); ++i) {
      Scope(ops[i], Kind::kFrameworkOp, start_ns + 10 + static_cast<int64_t>(i) * 100, 90);
    }
  }

  // "region: layer direction" of each scope that has a layer.
  std::vector<std::string> Placed() {
    model_ = builder_.Build();
    attribution_ = AttributeByFramework(model_);
    std::vector<std::string> placed;
    for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
      const Place place = attribution_.of_scope[scope];
      placed.push_back(place.layer == kNone ? "-"
                                            : absl::StrCat(attribution_.layers[place.layer].name, " ",
                                                           LayerDirectionName(place.direction)));
    }
    return placed;
  }

  const Layer& LayerNamed(const std::string& name) const {
    for (const Layer& layer : attribution_.layers) {
      if (layer.name == name) return layer;
    }
    ADD_FAILURE() << name;
    return attribution_.layers.front();
  }

  ModelBuilder& builder() { return builder_; }
  StackIndex stack() const { return stack_; }
  const Attribution& attribution() const { return attribution_; }

 private:
  ModelBuilder builder_;
  StackIndex stack_ = kNone;
  TraceModel model_;
  Attribution attribution_;
};

TEST(CompiledKernelsTest, RegionsHaveFunctionAndLineOfTheProgram) {
  Program program;
  program.Compilation("0/0", "forward", 6);
  program.Compilation("1/0", "torch_dynamo_resume_in_forward_at_8", 8);
  program.Forward("0/0", 0, {}, 3);
  program.Forward("1/0", 1000, {}, 4);
  program.Forward("2/0", 2000, {}, 5);
  EXPECT_THAT(program.Placed(),
              ElementsAre("compiled region 0/0: forward forward", "compiled region 0/0: forward forward",
                          "compiled region 1/0: forward from line 8 on forward",
                          "compiled region 1/0: forward from line 8 on forward", "compiled region 2/0 forward",
                          "compiled region 2/0 forward"));
  EXPECT_EQ(program.LayerNamed("compiled region 1/0: forward from line 8 on").line, "net.py:8");
}

TEST(CompiledKernelsTest, ABackwardPassBelongsToTheRegionWithItsNumber) {
  Program program;
  program.Forward("0/0", 0, {}, 3);
  program.Forward("1/0", 1000, {}, 4);
  program.Backward(2000, {}, 4);
  program.Backward(3000, {}, 3);
  const std::vector<std::string> placed = program.Placed();
  EXPECT_EQ(placed[4], "compiled region 1/0 backward");
  EXPECT_EQ(placed[5], "compiled region 0/0 backward");
}

TEST(CompiledKernelsTest, ABackwardPassInsideAnotherRegionIsTheOneOfItsNumber) {
  Program program;
  program.Forward("0/0", 0, {}, 3);
  program.Scope("Torch-Compiled Region: 1/0", Kind::kFrameworkOp, 1000, 1000, -1, program.stack());
  program.Scope("autograd::engine::evaluate_function: CompiledFunctionBackward", Kind::kFrameworkOp, 1100, 500, 3);
  program.Backward(1200, {"aten::mm"}, 3);
  const std::vector<std::string> placed = program.Placed();
  EXPECT_EQ(placed[4], "compiled region 0/0 backward");
  EXPECT_EQ(placed[5], "compiled region 0/0 backward");
}

TEST(CompiledKernelsTest, WithoutAStackTheFunctionsOwnModuleIsNotKnown) {
  Program program;
  program.Kernels("0/0", false, {{"aten::mm", ".fc"}, {"aten::mm", "head"}});
  program.Forward("0/0", 0, {"aten::mm", "aten::mm"}, 3, kNone);
  EXPECT_THAT(program.Placed(), ElementsAre("compiled region 0/0 forward", "compiled region 0/0 forward",
                                            "compiled region 0/0 forward", "head forward"));
}

TEST(CompiledKernelsTest, ARegionInsideAnotherIsItsOwn) {
  Program program;
  program.Scope("Torch-Compiled Region: 0/0", Kind::kFrameworkOp, 0, 1000, -1, program.stack());
  program.Forward("1/0", 500, {"aten::mm"}, 3);
  EXPECT_THAT(program.Placed(), ElementsAre("compiled region 0/0 forward", "compiled region 1/0 forward",
                                            "compiled region 1/0 forward", "compiled region 1/0 forward"));
}

TEST(CompiledKernelsTest, ACompiledBackwardPassInsideAnotherRegionIsBackward) {
  Program program;
  program.Compilation("!0/1/0", "forward", 4);
  program.Scope("Torch-Compiled Region: 0/0", Kind::kFrameworkOp, 0, 1000, -1, program.stack());
  program.Scope("Torch-Compiled Region: !0/1/0", Kind::kFrameworkOp, 500, 400);
  program.Scope("aten::mm", Kind::kFrameworkOp, 600, 100);
  EXPECT_THAT(program.Placed(),
              ElementsAre("compiled region 0/0 forward", "compiled region !0/1/0: compiled autograd backward",
                          "compiled region !0/1/0: compiled autograd backward"));
}

TEST(CompiledKernelsTest, ACompiledOptimizerUpdates) {
  Program program;
  program.builder().model().compiled.push_back({.kind = CompiledKind::kCompilation,
                                                .region = "1/0",
                                                .file = "/l/torch/optim/adam.py",
                                                .line = 213,
                                                .function = "step"});
  program.Scope("Torch-Compiled Region: 0/0", Kind::kFrameworkOp, 0, 1000, -1, program.stack());
  program.Scope("Torch-Compiled Region: 1/0", Kind::kFrameworkOp, 500, 400);
  EXPECT_THAT(program.Placed(), ElementsAre("compiled region 0/0 forward", "compiled region 1/0: step update"));
}

TEST(CompiledKernelsTest, CodeBetweenGraphsIsTheProgramsOwn) {
  Program program;
  const std::vector<ModelBuilder::Frame> outer = {{"/l/torch/nn/modules/module.py", "_call_impl", 1, 1},
                                                  {"/l/torch/nn/modules/module.py", "_call_impl", 1, 0},
                                                  {"/home/u/train.py", "<module>", 9}};
  auto own = outer, compiled = outer;
  own.insert(own.begin(), {"/home/u/net.py", "Net.forward", 8});
  compiled.insert(compiled.begin(), {"/l/torch/_inductor/output_code.py", "call", 50});
  program.Scope("Torch-Compiled Region: 0/0", Kind::kFrameworkOp, 0, 1000, -1, program.stack());
  program.Scope("aten::item", Kind::kFrameworkOp, 100, 50, -1, program.builder().AddStack(own));
  program.Scope("aten::mm", Kind::kFrameworkOp, 200, 50, -1, program.builder().AddStack(compiled));
  const std::vector<std::string> placed = program.Placed();
  EXPECT_NE(placed[1], "compiled region 0/0 forward");
  EXPECT_EQ(placed[2], "compiled region 0/0 forward");
}

TEST(CompiledKernelsTest, OperatorsBelongToTheirModules) {
  Program program;
  program.Kernels("0/0", false, {{"aten::convolution", ".stem.conv"}, {"aten::bmm", ""}, {"aten::addmm", ".fc"}});
  program.Kernels("0/0", true,
                  {{"aten::mm", ".fc", CompiledPart::kData},
                   {"aten::mm", ".fc", CompiledPart::kWeights},
                   {"aten::convolution_backward", ".stem.conv"}});
  program.Forward("0/0", 0, {"aten::convolution", "aten::detach", "aten::bmm", "aten::addmm"}, 3);
  program.Backward(1000, {"aten::mm", "aten::mm", "aten::convolution_backward"}, 3);
  EXPECT_THAT(program.Placed(), ElementsAre("compiled region 0/0 forward", "compiled region 0/0 forward",
                                            "stem.conv forward", "compiled region 0/0 forward",
                                            "compiled region 0/0 forward", "fc forward", "compiled region 0/0 backward",
                                            "fc backward-data", "fc backward-weights", "stem.conv backward"));
  EXPECT_EQ(program.LayerNamed("fc").model, "Net");
  EXPECT_EQ(program.LayerNamed("fc").type, "linear");
  EXPECT_EQ(program.LayerNamed("stem.conv").evidence, Evidence::kFramework);
}

TEST(CompiledKernelsTest, WhatTheForwardPassComputedBeforeIsRecomputed) {
  Program program;
  program.Kernels("0/0", true,
                  {{"aten::addmm", ".fc", CompiledPart::kRecompute},
                   {"aten::bmm", "", CompiledPart::kRecompute},
                   {"aten::bmm", "", CompiledPart::kUnknown}});
  program.Forward("0/0", 0, {}, 3);
  program.Backward(1000, {"aten::addmm", "aten::bmm", "aten::bmm"}, 3);
  EXPECT_THAT(program.Placed(),
              ElementsAre("compiled region 0/0 forward", "compiled region 0/0 forward", "compiled region 0/0 backward",
                          "fc recompute", "compiled region 0/0 recompute", "compiled region 0/0 backward"));
}

// DistributedDataParallel has a graph split by its buckets: one region, several graphs.
TEST(CompiledKernelsTest, EachGraphOfARegionHasItsBackwardPass) {
  Program program;
  for (const int64_t graph : {0, 1}) {
    const std::string module = graph == 0 ? ".first" : ".second";
    program.Kernels("0/0", false, {{"aten::mm", module}}, graph);
    program.Kernels("0/0", true, {{"aten::mm", module, CompiledPart::kWeights}, {"graph_0_relu", ""}}, graph);
    for (const std::string& part : {module, module + ".act"}) {
      program.builder().model().compiled.push_back(
          {.kind = CompiledKind::kKernelPart, .region = "0/0", .count = 1, .module = part});
    }
  }
  program.Scope("Torch-Compiled Region: 0/0", Kind::kFrameworkOp, 0, 1000, -1, program.stack());
  for (const int64_t graph : {0, 1}) {
    program.Scope("CompiledFunction", Kind::kFrameworkOp, 100 + graph * 400, 300, 3 + graph);
    program.Scope("aten::mm", Kind::kFrameworkOp, 200 + graph * 400, 100);
  }
  program.Backward(2000, {"aten::mm", "graph_0_relu"}, 4);
  program.Backward(3000, {"aten::mm", "graph_0_relu"}, 3);
  const std::vector<std::string> placed = program.Placed();
  EXPECT_EQ(placed[2], "first forward");
  EXPECT_EQ(placed[4], "second forward");
  EXPECT_EQ(placed[6], "second backward-weights");
  EXPECT_EQ(placed[7], "0/0 graph 2 backward loop 2: second, second.act backward");
  EXPECT_EQ(placed[9], "first backward-weights");
  EXPECT_EQ(placed[10], "0/0 backward loop 2: first, first.act backward");
}

TEST(CompiledKernelsTest, OperatorsOfGeneratedCppHaveTheirWork) {
  Program program;
  program.Kernels("0/0", false, {{"aoti_torch_cpu_addmm_out", ".fc"}, {"graph_0_cpp_fused_relu_0", ".act"}});
  program.Forward("0/0", 0, {"aoti_torch_cpu_addmm_out", "graph_0_cpp_fused_relu_0"}, 3);
  program.Placed();
  EXPECT_EQ(program.LayerNamed("fc").type, "linear");
  EXPECT_EQ(program.LayerNamed("act").type, "compiled loop");
}

// On GPUs loops are Triton's kernels: their launches are calls, without scopes of their own.
TEST(CompiledKernelsTest, TritonsKernelsHaveThePlacesOfTheirLaunches) {
  Program program;
  program.Kernels("0/0", false, {{"aten::mm", ".fc"}, {"triton_poi_0", ".act"}, {"triton_poi_0", ".last"}});
  program.Forward("0/0", 0, {"aten::mm"}, 3);
  program.Forward("0/0", 1000, {"aten::mm"}, 4);
  const auto launch = [&](const std::string& kernel, int64_t at_ns) {
    const std::string op = "function: 'cuLaunchKernelEx' family: 'cuda_launch' launch { kernel: '" + kernel + "' }";
    program.builder().Call(program.builder().AddOp(Definition(op)), at_ns, 2);
  };
  for (const int64_t at_ns : {101, 104, 107, 1101, 1104}) launch("triton_poi_0", at_ns);  // a trial at first
  launch("other", 1107);
  EXPECT_EQ(program.Placed()[2], "fc forward");
  std::vector<std::string> placed;
  for (const Place& place : program.attribution().of_call)
    placed.push_back(program.attribution().layers[place.layer].name);
  EXPECT_THAT(placed, ElementsAre("compiled region 0/0", "compiled region 0/0", "compiled region 0/0", "act", "last",
                                  "compiled region 0/0"));
}

TEST(CompiledKernelsTest, ALoopOverSeveralModulesHasParts) {
  Program program;
  program.Kernels("0/0", false, {{"graph_0_cpp_fused_relu_0", ""}});
  for (const auto& [module, elements] : {std::pair(".bn", 300), std::pair(".act", 90), std::pair("", 10)}) {
    program.builder().model().compiled.push_back(
        {.kind = CompiledKind::kKernelPart, .region = "0/0", .count = elements, .module = module});
  }
  program.Kernels("0/0", false, {{"graph_0_cpp_fused_gelu_1", ".gelu"}});
  program.Forward("0/0", 0, {"graph_0_cpp_fused_relu_0", "graph_0_cpp_fused_gelu_1"}, 3);
  program.Forward("0/0", 1000, {"graph_0_cpp_fused_relu_0", "graph_0_cpp_fused_gelu_1"}, 4);
  const std::string loop = "0/0 loop 1: bn, act, compiled region 0/0";
  const std::vector<std::string> placed = program.Placed();
  EXPECT_EQ(placed[2], loop + " forward");
  EXPECT_EQ(placed[3], "gelu forward");
  EXPECT_EQ(placed[6], loop + " forward");
  std::vector<std::pair<std::string, double>> parts;
  for (const LoopPart& part : program.LayerNamed(loop).loop_parts) {
    parts.emplace_back(program.attribution().layers[part.layer].name, part.part);
  }
  EXPECT_THAT(parts, ElementsAre(Pair("bn", 0.75), Pair("act", 0.225), Pair("compiled region 0/0", 0.025)));
}

TEST(CompiledKernelsTest, EachModuleThatRunsALoopHasItsOwnParts) {
  Program program;
  program.Kernels("0/0", false, {{"graph_0_cpp_fused_relu_0", ""}});
  for (const std::string module : {".bn", ".act"}) {
    program.builder().model().compiled.push_back(
        {.kind = CompiledKind::kKernelPart, .region = "0/0", .count = 1, .module = module});
  }
  // Two networks of one class, in each of which two blocks of one class run the region.
  std::vector<StackIndex> stacks;
  for (int network = 0; network < 2; ++network) {
    ModelBuilder& builder = program.builder();
    const ModuleIndex root = builder.AddModule("__main__.Two", {""});
    for (const std::string name : {"a", "b"}) {
      const ModuleIndex block = builder.AddModule("__main__.Block", {name}, root, root);
      stacks.push_back(builder.AddStack({{"/l/torch/nn/modules/module.py", "_call_impl", 1, block},
                                         {"/l/torch/nn/modules/module.py", "_call_impl", 1, root},
                                         {"/home/u/train.py", "<module>", 9}}));
    }
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    program.Forward("0/0", static_cast<int64_t>(i) * 1000, {"graph_0_cpp_fused_relu_0"}, 3, stacks[i]);
  }
  const std::vector<std::string> placed = program.Placed();
  EXPECT_EQ(placed[2], "0/0 loop 1: a.bn, a.act forward");
  EXPECT_EQ(placed[5], "0/0 loop 1: b.bn, b.act forward");
  EXPECT_EQ(placed[8], placed[2]);
  EXPECT_EQ(placed[11], placed[5]);
  std::vector<std::string> parts;
  for (const ScopeIndex scope : {2, 5, 8, 11}) {
    const Attribution& all = program.attribution();
    for (const LoopPart& part : all.layers[all.of_scope[scope].layer].loop_parts) {
      parts.push_back(absl::StrCat(all.layers[part.layer].model, ":", all.layers[part.layer].name));
    }
  }
  EXPECT_THAT(parts, ElementsAre("Two:a.bn", "Two:a.act", "Two:b.bn", "Two:b.act", "Two #2:a.bn", "Two #2:a.act",
                                 "Two #2:b.bn", "Two #2:b.act"));
}

TEST(CompiledKernelsTest, WhatFollowsFromTheOrderSaysSo) {
  Program program;
  program.Kernels("0/0", false, {{"aten::addmm", ".fc", CompiledPart::kUnknown, true}});
  program.Forward("0/0", 0, {"aten::addmm"}, 3);
  EXPECT_EQ(program.Placed().back(), "fc forward");
  EXPECT_EQ(program.LayerNamed("fc").evidence, Evidence::kOrder);
}

TEST(CompiledKernelsTest, OperatorsInAnotherOrderStayInTheirRegion) {
  Program program;
  program.Kernels("0/0", false, {{"aten::addmm", ".fc"}, {"aten::convolution", ".conv"}});
  program.Forward("0/0", 0, {"aten::convolution", "aten::addmm"}, 3);
  program.Forward("0/0", 1000, {"aten::addmm"}, 4);
  for (const std::string& placed : program.Placed()) EXPECT_EQ(placed, "compiled region 0/0 forward");
  EXPECT_THAT(program.attribution().oddities,
              ElementsAre(Key("a run of a compiled region whose operators are not those of its code, in its order")));
}

}  // namespace compiled_kernels_test
}  // namespace dlhook::analyzer
