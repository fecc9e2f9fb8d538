// Rule debug-switch: variables of the environment (its other switches: tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
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

// In each step so many nodes of 50 us, in which a number is read, or beside which.
TEST(DebugSwitch, AreHooksThatReadGradients) {
  for (const bool is_inside : {true, false}) {
    CpuProgram program;
    for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
      for (int64_t node_ns = at_ns; node_ns < at_ns + 500'000; node_ns += 100'000) {
        program.builder().Scope("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                                ScopeKind::kFrameworkOp, node_ns, 50'000);
        program.builder().Scope("aten::item", ScopeKind::kFrameworkOp, node_ns + (is_inside ? 10'000 : 60'000), 1'000);
      }
    }
    const auto found = program.Find("debug-switch");
    ASSERT_EQ(found.rows.size(), is_inside ? 1u : 0u);
    if (!is_inside) continue;
    EXPECT_THAT(found.Of(0, "finding"), testing::HasSubstr("read 5 numbers of tensors in a backward pass"));
    EXPECT_EQ(found.Gain(0), 250'000);
  }
}

TEST(DebugSwitch, IsSetByTheProgramItself) {
  CpuProgram program;
  program.Scope("aten::mul", 1000, CpuProgram::kStepNs / 2);
  program.builder().Scope("jax_debug_nans", ScopeKind::kUserRange, 10, 0);
  const auto found = program.Find("debug-switch");
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.Of(0, "where"), "jax_debug_nans=True");
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

TEST(DebugSwitch, IsCProfileThatSamplesMeet) {
  for (const char* library : {"/lib/_lsprof.cpython-311-x86_64-linux-gnu.so", "/lib/libother.so"}) {
    CpuProgram program;
    const StackIndex line = program.builder().AddStack({{"/home/u/train.py", "<module>", 7}});
    const FrameIndex native = program.builder().AddNativeStack({"f"}, library);
    for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
      for (const int64_t start_ns : {0, 900'000})
        program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, at_ns + start_ns, 50'000, 0, -1, line);
      program.builder().Sample(at_ns + 500'000, 400'000, native, line);
    }
    EXPECT_EQ(program.Find("debug-switch").rows.size(), absl::StrContains(library, "_lsprof") ? 1u : 0u);
  }
}

TEST(DebugSwitch, IsWhatDistributionsCheck) {
  const auto found = [](const std::string& file, const std::string& function) {
    CpuProgram program;
    program.UseTorch();
    const StackIndex stack = program.builder().AddStack({{file, function, 72}, {"/home/u/policy.py", "<module>", 8}});
    for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
      for (const int64_t start_ns : {100'000, 140'000})  // 20 us of Python between them, which count
        program.builder().Scope("aten::all", ScopeKind::kFrameworkOp, at_ns + start_ns, 20'000, 0, -1, stack);
      program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, at_ns + 200'000, 500'000);
    }
    return program.Find("debug-switch");
  };
  const auto checks = found("/opt/site-packages/torch/distributions/distribution.py", "Distribution.__init__");
  ASSERT_EQ(checks.rows.size(), 1u);
  EXPECT_NEAR(static_cast<double>(checks.Gain(0)), 60'000, 1);
  EXPECT_EQ(checks.Of(0, "line"), "policy.py:8");
  EXPECT_THAT(checks.Of(0, "advice"), testing::HasSubstr("validate_args=False"));
  EXPECT_EQ(found("/opt/site-packages/torch/distributions/constraints.py", "_Symmetric.check").rows.size(), 1u);
  EXPECT_THAT(found("/opt/site-packages/torch/distributions/normal.py", "Normal.log_prob").rows, IsEmpty());
}

// 10 operations of 50 us each in a step, called by a function of a package, or each in a range of that name.
CpuProgram::Found PassedOn(const char* function, const char* range) {
  CpuProgram program;
  program.UseTorch();
  const StackIndex stack = program.builder().AddStack(
      {{"/v/site-packages/torch/_tensor.py", function, 9}, {"/home/u/train.py", "<module>", 8}});
  for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs / 10) {
    program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, at_ns, 50'000, 0, -1, stack);
    program.builder().Scope(range, ScopeKind::kFrameworkOp, at_ns + 1000, 40'000);
  }
  return program.Find("debug-switch");
}

TEST(DebugSwitch, IsWhatPassesThroughPython) {
  const auto function = PassedOn("Tensor.__torch_function__", "aten::mul");
  ASSERT_EQ(function.rows.size(), 1u);
  EXPECT_NEAR(static_cast<double>(function.Gain(0)), 500'000, 10'000);  // what lies between the operations
  EXPECT_THAT(function.Of(0, "finding"), testing::HasSubstr("10 operations of a training step pass through Python"));
  EXPECT_THAT(function.Of(0, "advice"), testing::HasSubstr("as_subclass"));
  const auto mode = PassedOn("Tensor.__rsub__", "PythonDispatchMode");
  ASSERT_EQ(mode.rows.size(), 1u);
  EXPECT_EQ(mode.Gain(0), 400'000);
  EXPECT_THAT(mode.Of(0, "advice"), testing::HasSubstr("FlopCounterMode"));
  EXPECT_THAT(PassedOn("Tensor.__rsub__", "aten::mul").rows, IsEmpty());
}

TEST(DebugSwitch, IsDetailWhereRanksTalk) {
  const auto found = [](const char* value, bool has_collectives) {
    CpuProgram program;
    program.Scope("aten::mul", 1000, CpuProgram::kStepNs / 2);
    if (has_collectives) program.Scope("c10d::allreduce_", CpuProgram::kStepNs / 2 + 2000, 1000);
    program.process().settings.emplace_back("TORCH_DISTRIBUTED_DEBUG", value);
    return program.Find("debug-switch").rows.size();
  };
  EXPECT_EQ(found("DETAIL", true), 1u);
  EXPECT_EQ(found("DETAIL", false), 0u);
  EXPECT_EQ(found("INFO", true), 0u);
}

}  // namespace debug_switch_test
}  // namespace dlhook::analyzer
