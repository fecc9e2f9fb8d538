// Rule type-conversions, on steps with conversions outside of all layers and within one (real ones: tests/frameworks).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace type_conversions_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// In each step of 1 ms.
CpuProgram Converting(int64_t ns, const char* op = "aten::_to_copy") {
  CpuProgram program;
  const StackIndex stack = program.builder().AddStack({{"/home/u/train.py", "<module>", 7}});
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    program.builder().Scope("aten::to", ScopeKind::kFrameworkOp, step_ns + 1000, ns + 1000, 0, -1, stack);
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

TEST(TypeConversions, AreNoneBelowATenthOrWhereNothingIsConverted) {
  EXPECT_THAT(Converting(90'000).Find("type-conversions").rows, IsEmpty());
  EXPECT_THAT(Converting(150'000, "aten::clone").Find("type-conversions").rows, IsEmpty());
}

}  // namespace type_conversions_test
}  // namespace dlhook::analyzer
