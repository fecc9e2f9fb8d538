// Rule heavy-operations: a sort, a one-hot matrix, an indexed write … that take a tenth of a step; made-anew, of networks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace heavy_operations_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// In each step of 1 ms, `op` for so long, called at a line, or by a node of the backward pass.
CpuProgram::Found Find(const char* op, int64_t ns, bool in_backward = false, StepKind kind = StepKind::kTraining) {
  CpuProgram program(kind);
  program.UseTorch();
  const StackIndex stack = program.builder().AddStack({{"/home/u/train.py", "<module>", 7}});
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    if (in_backward)
      program.builder().Scope("EmbeddingBackward0", ScopeKind::kBackwardNode, step_ns + 900, ns + 300, 0, -1, stack);
    program.builder().Scope(op, ScopeKind::kFrameworkOp, step_ns + 1000, ns, 0, -1, stack);
    program.builder().Scope("aten::copy_", ScopeKind::kFrameworkOp, step_ns + 1100, ns - 200);
  }
  return program.Find("heavy-operations");
}

TEST(HeavyOperations, AreNamedWithTheirLineAndAllThatRunsInside) {
  const auto found = Find("aten::sort", 150'000);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 150'000);
  EXPECT_EQ(found.Of(0, "line"), "train.py:7");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("aten::sort"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("torch.topk"));
}

// What a thread beside the steps does takes none of their time.
TEST(HeavyOperations, AreNotThoseOfAMonitor) {
  for (const int own : {1, 10}) {  // of the other thread, in a step
    CpuProgram program;
    program.UseTorch();
    const ThreadIndex other = program.builder().AddThread();
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
      for (int i = 0; i < 10; ++i)
        program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, step_ns + i * 50'000, 40'000);
      for (int i = 0; i < own; ++i)
        program.builder().Scope("aten::sort", ScopeKind::kFrameworkOp, step_ns + i * 20'000, 200'000 / own, other);
    }
    EXPECT_THAT(program.Find("heavy-operations").rows, SizeIs(own == 1 ? 0 : 1));
  }
}

TEST(HeavyOperations, AreNoneBelowATenthAndNoOrdinaryOnes) {
  EXPECT_THAT(Find("aten::sort", 90'000).rows, IsEmpty());
  EXPECT_THAT(Find("aten::relu", 500'000).rows, IsEmpty());
}

TEST(HeavyOperations, AreTheProgramsChoice) {
  EXPECT_THAT(Find("aten::sort", 150'000, /*in_backward=*/true).rows, IsEmpty());
  EXPECT_THAT(Find("aten::_index_put_impl_", 150'000, /*in_backward=*/true).rows, SizeIs(1));
}

TEST(HeavyOperations, AreDropoutsInInferenceOnly) {
  EXPECT_THAT(Find("aten::bernoulli_", 150'000).rows, IsEmpty());
  const auto found = Find("aten::bernoulli_", 150'000, /*in_backward=*/false, StepKind::kInference);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("model.eval()"));
}

TEST(HeavyOperations, AreCopiesThatTheProgramAsksFor) {
  const auto of_request = [](const char* op, int64_t ns) {
    return Find(op, ns, /*in_backward=*/false, StepKind::kInference);
  };
  const auto found = of_request("aten::index_select", 300'000);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Rows are copied by their indices"));
  EXPECT_THAT(of_request("aten::index_select", 200'000).rows, IsEmpty());
  EXPECT_THAT(of_request("aten::embedding", 300'000).rows, IsEmpty());
  EXPECT_THAT(Find("aten::index_select", 300'000).rows, IsEmpty());
  EXPECT_THAT(Find("aten::contiguous", 300'000).rows, SizeIs(1));
}

TEST(HeavyOperations, AreInformationWhereTheirSizesDecide) {
  EXPECT_THAT(Find("aten::_fft_r2c", 150'000).rows, IsEmpty());
  const auto found = Find("aten::_fft_r2c", 350'000);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "kind"), "information");
}

// Whole rows that index_add_ adds are its own; a node's are the program's.
TEST(HeavyOperations, AreElementsWithAnIndexEach) {
  const auto found = Find("aten::scatter_add_", 300'000);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("x.index_add_(0, index, rows)"));
  EXPECT_THAT(Find("aten::gather", 300'000, /*in_backward=*/true).rows, SizeIs(1));
  CpuProgram program;
  program.UseTorch();
  program.Scope("aten::index_add_", 1000, 300'000);
  program.Scope("aten::scatter_add_", 1100, 290'000);
  EXPECT_THAT(program.Find("heavy-operations").rows, IsEmpty());
}

TEST(HeavyOperations, AreTheOutermostOnesOfTheirKinds) {
  CpuProgram program;
  program.UseTorch();
  program.Scope("aten::coalesce", 1000, 300'000);
  program.Scope("aten::_coalesce", 1100, 290'000);
  program.Scope("aten::sort", 1200, 200'000);
  const auto found = program.Find("heavy-operations");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 300'000);
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("to_sparse_csr()"));
}

CpuProgram::Found Convolving(const std::string& problem) {
  CpuProgram program;
  program.UseTorch();
  program.Calls(OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_inference,"
                                 "src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 dst:f32::blocked:abcd::f0,,"
                                 "alg:convolution_direct," +
                                 problem + ",0.5"),
                1, 1000, 800'000);
  return program.Find("heavy-operations");
}

TEST(HeavyOperations, AreFiltersThatATransformComputesWithLess) {
  // 2 * 4 * 16 000 * 8 000 operations against 2.5 * 32 768 * 15 for each of 4 inputs, 4 results and a kernel, and 4 products.
  const auto found = Convolving("mb4_ic1oc1_ih1oh1kh1sh1dh0ph0_iw23999ow16000kw8000sw1dw0pw0");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 800'000);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Fourier transforms would need 88 times fewer operations"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("torch.fft"));
  EXPECT_THAT(Convolving("mb4_ic1oc1_ih1oh1kh1sh1dh0ph0_iw16199ow16000kw200sw1dw0pw0").rows, IsEmpty());
  EXPECT_THAT(Convolving("g16mb1_ic16oc16_ih56oh56kh31sh1dh0ph15_iw56ow56kw31sw1dw0pw15").rows, IsEmpty());
}

// In each step a network is made, or with `every` in each so many-th.
CpuProgram::Found Filling(const char* file, const char* function, int every = 1) {
  CpuProgram program(StepKind::kInference);
  program.UseTorch();
  const StackIndex stack =
      program.builder().AddStack({{file, function, 99},
                                  {"/v/site-packages/torch/nn/modules/linear.py", "Linear.__init__", 9},
                                  {"/home/u/serve.py", "load", 5}});
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    const int64_t at_ns = step * CpuProgram::kStepNs;
    program.builder().Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns + 500'000, 100'000);
    if (step % every == 0)
      program.builder().Scope("aten::uniform_", ScopeKind::kFrameworkOp, at_ns + 1000, 300'000, 0, -1, stack);
  }
  return program.Find("made-anew");
}

TEST(MadeAnew, IsANetworkInEachRequest) {
  const auto found = Filling("/v/site-packages/torch/nn/init.py", "_no_grad_uniform_");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 300'000);
  EXPECT_EQ(found.Of(0, "line"), "serve.py:5");
  EXPECT_THAT(Filling("/v/site-packages/torch/nn/modules/module.py", "Module.load_state_dict").rows, SizeIs(1));
  EXPECT_THAT(Filling("/v/site-packages/torch/nn/init.py", "_no_grad_uniform_", 4).rows, IsEmpty());
  EXPECT_THAT(Filling("/v/site-packages/torch/nn/functional.py", "dropout").rows, IsEmpty());
}

// In each so many-th step an iterator is made, and input is waited for.
CpuProgram::Found Iterating(int every) {
  CpuProgram program;
  program.UseTorch();
  const StackIndex stack = program.builder().AddStack(
      {{"/v/site-packages/torch/utils/data/dataloader.py", "_BaseDataLoaderIter.__init__", 9},
       {"/home/u/train.py", "<module>", 5}});
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    const int64_t at_ns = step * CpuProgram::kStepNs;
    if (step % every == 0)
      program.builder().Scope("aten::random_", ScopeKind::kFrameworkOp, at_ns, 5'000, 0, -1, stack);
    program.builder().Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ScopeKind::kUserRange,
                            at_ns + 10'000, 300'000);
    program.builder().Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns + 500'000, 100'000);
  }
  return program.Find("made-anew");
}

TEST(MadeAnew, IsAnIteratorInEachStep) {
  const auto found = Iterating(1);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 300'000);
  EXPECT_EQ(found.Of(0, "line"), "train.py:5");
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("not next(iter(loader))"));
  EXPECT_THAT(Iterating(5).rows, IsEmpty()) << "epochs";
}

// In each step so many tensors of a module are copied in 50 us each, 10 us apart.
TEST(MadeAnew, IsACopyInEachStep) {
  for (const char* function : {"deepcopy", "copy"}) {
    CpuProgram program;
    program.UseTorch();
    const StackIndex stack =
        program.builder().AddStack({{"/v/site-packages/torch/_tensor.py", "Tensor.__deepcopy__", 9},
                                    {"/usr/lib/python3.11/copy.py", function, 8},
                                    {"/home/u/train.py", "keep", 5}});
    for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
      program.builder().Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns + 500'000, 100'000);
      for (int i = 0; i < 4; ++i)
        program.builder().Scope("aten::clone", ScopeKind::kFrameworkOp, at_ns + 1000 + i * 60'000, 50'000, 0, -1,
                                stack);
    }
    const auto found = program.Find("made-anew");
    ASSERT_THAT(found.rows, SizeIs(absl::string_view(function) == "deepcopy" ? 1 : 0));
    if (found.rows.empty()) continue;
    EXPECT_NEAR(static_cast<double>(found.Gain(0)), 4 * 50'000 + 3 * 10'000, 10);
    EXPECT_EQ(found.Of(0, "line"), "train.py:5");
    EXPECT_THAT(found.Of(0, "finding"), HasSubstr("copy.deepcopy copies tensors"));
  }
}

TEST(HeavyOperations, AreXlasToo) {
  for (const std::string name : {"copy", "sort", "add"}) {
    CpuProgram program;
    program.builder().model().compiled_ops.push_back({.program = "jit_put", .primitive = name, .line = "buffer.py:5"});
    for (int step = 0; step < CpuProgram::kSteps; ++step)
      program.builder().Scope(name, ScopeKind::kXlaOp, step * CpuProgram::kStepNs + 1000, 400'000, 0,
                              CompiledLink{0, step + 1}.Encoded());
    EXPECT_THAT(program.Find("heavy-operations").rows, SizeIs(name == "add" ? 0 : 1)) << name;
    EXPECT_THAT(program.FindInRun("heavy-operations").rows, SizeIs(name == "add" ? 0 : 1)) << name;
  }
}

}  // namespace heavy_operations_test
}  // namespace dlhook::analyzer
