// Rule python-bound: Python between operations, without the time in which its thread sleeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace python_bound_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// In a step of 1 ms, 40 operations of 10 us each, which Python calls; the first thread runs for this part of it.
CpuProgram Program(double first, double all, double waiting = 0) {
  CpuProgram program;
  ModelBuilder& builder = program.builder();
  const StackIndex stack = builder.AddStack({{"train.py", "<module>", 7}});
  for (int i = 0; i < 40 * CpuProgram::kSteps; ++i) {
    builder.Scope("aten::mul", ScopeKind::kFrameworkOp, i * CpuProgram::kStepNs / 40, 10'000, 0, -1, stack);
  }
  program.Load(all, 1);
  for (LoadSample& sample : builder.model().loads) {
    sample.first_thread_cpu_ns = static_cast<int64_t>(first * static_cast<double>(sample.time_ns));
    sample.waiting_ns = static_cast<int64_t>(waiting * static_cast<double>(sample.time_ns));
  }
  return program;
}

TEST(PythonBound, IsPythonBetweenOperations) {
  const auto found = Program(1, 1).Find("python-bound");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 600'000, 16'000);  // after the last operation none tells where Python is
  EXPECT_THAT(found.Of(0, "evidence"), Not(HasSubstr("slept")));
}

TEST(PythonBound, IsNotWhatTheThreadSleeps) {
  const auto found = Program(0.7, 0.7).Find("python-bound");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 300'000, 16'000);
  EXPECT_THAT(found.Of(0, "evidence"), HasSubstr("300 us in which the thread slept were left out"));
  EXPECT_THAT(Program(0.5, 0.5).Find("python-bound").rows, IsEmpty());
  EXPECT_THAT(Program(0.5, 1).Find("python-bound").rows, IsEmpty());  // others run meanwhile
}

// It wants to run: the machine is busy.
TEST(PythonBound, IsNotLessWhereTheThreadWaitsForAProcessor) {
  EXPECT_THAT(Program(0.5, 0.5, 0.5).Find("python-bound").rows, SizeIs(1));
}

TEST(PythonBound, NamesNumbersTakenOutOfTensors) {
  for (const char* name : {"aten::item", "aten::mul"}) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack(
        {{"/opt/lib/python3.11/site-packages/torch/_tensor_str.py", "_str", 99}, {"train.py", "<module>", 7}});
    for (int i = 0; i < 80 * CpuProgram::kSteps; ++i) {
      program.builder().Scope(name, ScopeKind::kFrameworkOp, i * CpuProgram::kStepNs / 80, 5'000, 0, -1, stack);
    }
    const auto found = program.Find("python-bound");
    ASSERT_THAT(found.rows, SizeIs(1));
    EXPECT_THAT(found.Of(0, "finding"), HasSubstr("More than half of it passes in _str (_tensor_str.py)."));
    const bool is_item = absl::string_view(name) == "aten::item";
    EXPECT_THAT(found.Of(0, "advice"), is_item ? HasSubstr("one by one, 80 times a training step")
                                               : testing::Matcher<const std::string&>(Not(HasSubstr("Numbers"))));
  }
}

// At the line of most of them, over all stacks that lead there.
TEST(PythonBound, NumbersAreTakenOutAtTheLineOfMost) {
  CpuProgram program;
  std::vector<StackIndex> stacks = {program.builder().AddStack({{"train.py", "<module>", 9}})};
  for (uint32_t line = 1; line < 4; ++line)
    stacks.push_back(program.builder().AddStack(
        {{"/opt/lib/python3.11/site-packages/torch/_tensor_str.py", "_str", line}, {"train.py", "<module>", 7}}));
  for (int i = 0; i < 80 * CpuProgram::kSteps; ++i) {
    const size_t of_stack = i % 20 < 8 ? 0 : 1 + static_cast<size_t>(i % 3);
    program.builder().Scope("aten::item", ScopeKind::kFrameworkOp, i * CpuProgram::kStepNs / 80, 5'000, 0, -1,
                            stacks[of_stack]);
  }
  EXPECT_EQ(program.Find("python-bound").Of(0, "line"), "train.py:7");
}

// In each step, 80 numbers in 160 us, then something else.
TEST(PythonBound, NumbersOneByOneAreJudgedByTheTimeThatRan) {
  for (const bool is_busy : {false, true}) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack({{"train.py", "<module>", 7}});
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
      for (int i = 0; i < 80; ++i)
        program.builder().Scope("aten::item", ScopeKind::kFrameworkOp, step_ns + i * 2'000, 500, 0, -1, stack);
      program.builder().Scope("aten::relu", ScopeKind::kFrameworkOp, step_ns + 160'000, 839'000, 0, -1, stack);
    }
    program.Load(is_busy ? 0.4 : 1, 1);
    for (LoadSample& sample : program.builder().model().loads) {
      sample.first_thread_cpu_ns = static_cast<int64_t>((is_busy ? 0.4 : 1) * static_cast<double>(sample.time_ns));
      sample.waiting_ns = sample.time_ns - sample.first_thread_cpu_ns;
    }
    EXPECT_THAT(program.Find("python-bound").rows, SizeIs(is_busy ? 1 : 0));
  }
}

// Beside other work: numbers taken out of tensors count from a fifth of the step on, with what the framework does for them.
TEST(PythonBound, NumbersOneByOneAreASureCause) {
  for (const char* name : {"aten::item", "aten::mul"}) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack({{"train.py", "<module>", 7}});
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
      for (int i = 0; i < 80; ++i)
        program.builder().Scope(name, ScopeKind::kFrameworkOp, step_ns + i * 3'500, 1'500, 0, -1, stack);
      program.builder().Scope("aten::relu", ScopeKind::kFrameworkOp, step_ns + 280'000, 719'000, 0, -1, stack);
    }
    EXPECT_THAT(program.Find("python-bound").rows, SizeIs(absl::string_view(name) == "aten::item" ? 1 : 0));
  }
}

// They are of an operation that Python calls, 1200 in a step: a recurrent network's.
TEST(PythonBound, IsNotWhatOneOperationConsistsOf) {
  for (const bool is_one : {true, false}) {
    for (const char* name : {"aten::mul", "aten::item"}) {
      CpuProgram program;
      const StackIndex stack = program.builder().AddStack({{"train.py", "<module>", 7}});
      for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
        if (is_one) program.builder().Scope("aten::gru", ScopeKind::kFrameworkOp, step_ns, 990'000, 0, -1, stack);
        for (int i = 0; i < 1200; ++i)
          program.builder().Scope(name, ScopeKind::kFrameworkOp, step_ns + i * 800, 760, 0, -1, stack);
      }
      EXPECT_THAT(program.Find("python-bound").rows, SizeIs(is_one ? 0 : 1)) << name;
    }
  }
}

// A backward pass runs its nodes itself; they have the line that called it.
TEST(PythonBound, IsNotABackwardPass) {
  for (const char* caller : {"backward", "step"}) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack(
        {{"/opt/lib/python3.11/site-packages/torch/autograd/__init__.py", caller, 99}, {"train.py", "<module>", 7}});
    for (int i = 0; i < 1200 * CpuProgram::kSteps; ++i)
      program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, i * CpuProgram::kStepNs / 1200, 760, 0, -1, stack);
    EXPECT_THAT(program.Find("python-bound").rows, SizeIs(absl::string_view(caller) == "step" ? 1 : 0)) << caller;
  }
}

// Gloo's collective operations are ranges between operations.
TEST(PythonBound, IsNotWaitingForOtherRanks) {
  for (const char* range : {"gloo:all_reduce", "my range"}) {
    CpuProgram program;
    const StackIndex stack = program.builder().AddStack({{"train.py", "<module>", 7}});
    for (int i = 0; i < 40 * CpuProgram::kSteps; ++i) {
      const int64_t at_ns = i * CpuProgram::kStepNs / 40;
      program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, at_ns, 10'000, 0, -1, stack);
      program.builder().Scope(range, ScopeKind::kUserRange, at_ns + 11'000, 13'000);
    }
    EXPECT_THAT(program.Find("python-bound").rows, SizeIs(absl::string_view(range) == "my range" ? 1 : 0));
  }
}

// 80 tiny operations a step, and so many library calls: products of one row forward, or of the backward pass.
std::string AdviceFor(const char* name, int forward, int backward, int64_t rows = 16, bool has_ddp = false) {
  CpuProgram program;
  if (has_ddp) program.builder().AddName("DistributedDataParallel.forward");
  program.UseTorch();
  const StackIndex stack = program.builder().AddStack({{"train.py", "<module>", 7}});
  for (int i = 0; i < 80 * CpuProgram::kSteps; ++i)
    program.builder().Scope(name, ScopeKind::kFrameworkOp, i * CpuProgram::kStepNs / 80, 5'000, 0, -1, stack);
  const auto add = [&](LayerDirection direction, int count, int64_t at_ns) {
    const int64_t columns = direction == LayerDirection::kForward ? 64 : 32;
    const OpIndex op = program.builder().AddOp(GemmDefinition(columns, rows, 64, "NN"));
    for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
      for (int i = 0; i < count; ++i) program.builder().Call(op, step_ns + at_ns + i * CpuProgram::kStepNs / 80, 1'000);
    }
    program.LayerOf(op, {.name = "0", .module = "0", .type = "linear"}, direction);
  };
  add(LayerDirection::kForward, forward, 1'000);
  add(LayerDirection::kBackwardData, backward, 3'000);
  const auto found = program.Find("python-bound");
  return found.rows.empty() ? "" : found.Of(0, "advice");
}

TEST(PythonBound, NamesWhatRunsOneByOne) {
  EXPECT_THAT(AdviceFor("c10d::allreduce_", 1, 1), HasSubstr("one by one, 80 times a training step"));
  EXPECT_THAT(AdviceFor("c10d::allreduce_", 1, 1, 16, /*has_ddp=*/true), Not(HasSubstr("reduced")));
  EXPECT_THAT(AdviceFor("aten::mul", 16, 16, 1),
              HasSubstr("The model runs 16 times a training step, for one row each"));
  EXPECT_THAT(AdviceFor("aten::mul", 4, 4, 1), Not(HasSubstr("one row")));
  EXPECT_THAT(AdviceFor("aten::mul", 16, 16, 2), Not(HasSubstr("one row")));
}

// Without samples nobody knows whose code it is; by samples native code between operations is not Python's.
TEST(PythonBound, SamplesTellNativeCodeFromPython) {
  const auto not_told = Program(1, 1).Find("python-bound");
  EXPECT_THAT(not_told.Of(0, "finding"), StartsWith("Python or native code between 40 operations takes"));
  for (const int python : {4, 3, 0}) {
    CpuProgram program = Program(1, 1);
    const StackIndex line = program.builder().AddStack({{"train.py", "<module>", 7}});
    const FrameIndex native = program.builder().AddNativeStack({"Kernel"}, "/lib/libkernels.so");
    for (int i = 0; i < 40 * CpuProgram::kSteps; ++i) {
      const bool is_python = i % 4 < python;
      program.builder().Sample(i * CpuProgram::kStepNs / 40 + 18'000, 15'000, is_python ? kNone : native, line);
    }
    const auto found = program.Find("python-bound");
    ASSERT_THAT(found.rows, SizeIs(python == 0 ? 0 : 1));
    if (python == 0) continue;
    EXPECT_NEAR(found.Gain(0), 600'000 * python / 4, 32'000);
    EXPECT_THAT(found.Of(0, "finding"), StartsWith("Python between 40 operations takes"));
    EXPECT_THAT(found.Of(0, "evidence"), HasSubstr(absl::StrCat(25 * python, " % of the samples")));
  }
}

enum class Rounds : uint8_t { kOfOnePlace, kOfLayers, kOfSamples };

// In each step so many rounds of two operations of 4 us, and something else.
CpuProgram::Found Looping(int rounds, Rounds of = Rounds::kOfOnePlace, int gradients = 0) {
  CpuProgram program;
  program.UseTorch();
  ModelBuilder& builder = program.builder();
  const StackIndex backward =
      builder.AddStack({{"/opt/lib/python3.11/site-packages/torch/autograd/graph.py", "_engine_run_backward", 9},
                        {"train.py", "fit", 9}});
  std::vector<std::pair<StackIndex, StackIndex>> stacks;
  for (int i = 0; i < rounds; ++i) {
    if (i > 0 && of != Rounds::kOfLayers) {
      stacks.push_back(stacks.front());
      continue;
    }
    const auto caller = static_cast<uint32_t>(20 + i);
    stacks.emplace_back(builder.AddStack({{"train.py", "clip", 7}, {"train.py", "fit", caller}}),
                        builder.AddStack({{"train.py", "clip", 8}, {"train.py", "fit", caller}}));
  }
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    int64_t at_ns = step_ns;
    const auto op = [&](const char* name, int64_t ns, StackIndex stack, ScopeKind kind = ScopeKind::kFrameworkOp) {
      builder.Scope(name, kind, at_ns, ns, 0, -1, stack);
      at_ns += ns;
    };
    for (const auto& [norm, mul] : stacks) {
      op("aten::linalg_vector_norm", 4'000, norm);
      op("aten::mul_", 4'000, mul);
      if (of == Rounds::kOfSamples) op("aten::mm", 4'000, backward);
    }
    for (int i = 0; i < gradients; ++i)
      op("torch::autograd::AccumulateGrad", 1'000, backward, ScopeKind::kBackwardNode);
    op("aten::relu", step_ns + 999'000 - at_ns, kNone);
  }
  return program.Find("op-by-op");
}

TEST(OpByOp, IsALoopInPython) {
  const auto found = Looping(40);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 320'000);
  EXPECT_EQ(found.Of(0, "where"), "clip");
  EXPECT_EQ(found.Of(0, "line"), "train.py:7 to 8");
  EXPECT_THAT(found.Of(0, "finding"),
              HasSubstr("the same operations 40 times (aten::linalg_vector_norm, aten::mul_): 320 us"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("torch.bmm"));
  EXPECT_THAT(Looping(8).rows, IsEmpty());
  EXPECT_THAT(Looping(40, Rounds::kOfLayers).rows, IsEmpty());
  EXPECT_THAT(Looping(40, Rounds::kOfSamples).rows, IsEmpty());
}

TEST(OpByOp, GoesThroughParameters) {
  const auto found = Looping(40, Rounds::kOfOnePlace, 38);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("as many as parameters get gradients"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("clip_grad_norm_ once for all"));
}

}  // namespace python_bound_test
}  // namespace dlhook::analyzer
