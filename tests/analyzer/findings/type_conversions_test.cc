// Rule type-conversions, on steps with conversions outside of all layers and within one (real ones: tests/frameworks).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace type_conversions_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// In each step of 1 ms, `op` in an operation of the program.
CpuProgram Converting(int64_t ns, const char* op = "aten::_to_copy", const char* outer = "aten::to",
                      StepKind kind = StepKind::kTraining) {
  CpuProgram program(kind);
  const StackIndex stack = program.builder().AddStack({{"/home/u/train.py", "<module>", 7}});
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    program.builder().Scope(outer, ScopeKind::kFrameworkOp, step_ns + 1000, ns + 1000, 0, -1, stack);
    program.builder().Scope(op, ScopeKind::kFrameworkOp, step_ns + 1500, ns);
  }
  return program;
}

TEST(TypeConversions, AreWhatTheProgramDoesInEachStep) {
  const auto found = Converting(150'000).Find("type-conversions");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 150'000);
  EXPECT_EQ(found.Of(0, "line"), "train.py:7");
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("astype(np.float32)"));
}

TEST(TypeConversions, AreAutocastsInsideOfAnOperation) {
  const auto inference =
      Converting(150'000, "aten::_to_copy", "aten::linear", StepKind::kInference).Find("type-conversions");
  ASSERT_THAT(inference.rows, SizeIs(1));
  EXPECT_THAT(inference.Of(0, "finding"), HasSubstr("as autocast does"));
  EXPECT_THAT(inference.Of(0, "advice"), HasSubstr("in place of torch.autocast"));
  EXPECT_EQ(inference.Of(0, "kind"), "loss");
  const auto training = Converting(150'000, "aten::_to_copy", "aten::linear").Find("type-conversions");
  ASSERT_THAT(training.rows, SizeIs(1));
  EXPECT_EQ(training.Of(0, "kind"), "information");
}

TEST(TypeConversions, AreWeightsThatHooksLoadAgain) {
  CpuProgram program(StepKind::kInference);
  const StackIndex stack = program.builder().AddStack(
      {{"/opt/lib/python3.11/site-packages/accelerate/utils/offload.py", "load_offloaded_weight", 80},
       {"/home/u/serve.py", "Block.forward", 11}});
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs)
    program.builder().Scope("aten::_to_copy", ScopeKind::kFrameworkOp, step_ns + 1000, 150'000, 0, -1, stack);
  const auto found = program.Find("type-conversions");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "line"), "serve.py:11");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Weights are copied again in each request"));
}

TEST(TypeConversions, AreNoneBelowATenthOrWhereNothingIsConverted) {
  EXPECT_THAT(Converting(90'000).Find("type-conversions").rows, IsEmpty());
  EXPECT_THAT(Converting(150'000, "aten::clone").Find("type-conversions").rows, IsEmpty());
}

}  // namespace type_conversions_test
}  // namespace dlhook::analyzer
