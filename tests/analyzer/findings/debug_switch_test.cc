// Rule debug-switch: variables of the environment (its other switches: tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace debug_switch_test {

using testing::IsEmpty;

// Half of a step is an operation of the framework.
CpuProgram::Found With(const std::string& variable, const std::string& value) {
  CpuProgram program;
  program.Scope("aten::mul", 1000, CpuProgram::kStepNs / 2);
  program.process().settings.emplace_back(variable, value);
  return program.Find("debug-switch");
}

TEST(DebugSwitch, IsAVariable) {
  const auto found = With("JAX_DEBUG_NANS", "True");
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Of(0, "where"), "JAX_DEBUG_NANS=True");
  EXPECT_EQ(found.Of(0, "basis"), "at most");
}

TEST(DebugSwitch, IsOffOrOfAGpu) {
  EXPECT_THAT(With("JAX_DEBUG_NANS", "0").rows, IsEmpty());
  EXPECT_THAT(With("CUDA_LAUNCH_BLOCKING", "1").rows, IsEmpty());
  EXPECT_THAT(With("OMP_NUM_THREADS", "1").rows, IsEmpty());
}

}  // namespace debug_switch_test
}  // namespace dlhook::analyzer
