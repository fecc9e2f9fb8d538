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

TEST(DebugSwitch, IsTheProfilerThatWasOnInTheSteps) {
  CpuProgram program;
  program.Scope("aten::mul", 1000, CpuProgram::kStepNs / 2);
  for (int64_t step = 0; step < CpuProgram::kSteps; ++step)
    program.builder().Scope("torch.profiler is on", ScopeKind::kUserRange, (step + 1) * CpuProgram::kStepNs - 10, 0);
  const auto found = program.Find("debug-switch");
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Of(0, "where"), "torch.profiler");
}

TEST(DebugSwitch, IsAProfilerOfPythonThatRunsTheProgram) {
  const auto found = [](const std::string& outermost, const std::string& next) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack({{next, "run", 9}, {outermost, "<module>", 5}});
    program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, 1000, CpuProgram::kStepNs / 2, 0, -1, stack);
    program.Scope("aten::mul", 1000, CpuProgram::kStepNs / 2);
    return program.Find("debug-switch").rows.size();
  };
  EXPECT_EQ(found("/usr/lib/python3.11/cProfile.py", "/home/u/train.py"), 1u);
  EXPECT_EQ(found("/home/u/train.py", "/usr/lib/python3.11/cProfile.py"), 0u);
}

}  // namespace debug_switch_test
}  // namespace dlhook::analyzer
