// Rule heavy-operations: a sort, a one-hot matrix, an indexed write … that take a tenth of a step.
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

}  // namespace heavy_operations_test
}  // namespace dlhook::analyzer
