// Rule slow-lines: stretches between two operations that are long by themselves, and python-bound beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>

#include "absl/strings/match.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace slow_lines_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// In each step of 1 ms 20 operations of 10 us at one line, 10 us apart; after the last one of a step 600 us pass. In one step
// of ten another program interrupts the thread between the first two for 300 us instead.
CpuProgram Program(bool is_interrupted = false) {
  CpuProgram program;
  program.UseTorch();
  const StackIndex stack = program.builder().AddStack(
      {{"/opt/lib/python3.11/site-packages/torch/_ops.py", "__call__", 9}, {"/home/u/train.py", "<module>", 7}});
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t late_ns = is_interrupted && i > 0 && step == 5 ? 300'000 : 0;
      program.builder().Scope(i == 0    ? "aten::linear"
                              : i == 19 ? "aten::mean"
                                        : "aten::mul",
                              ScopeKind::kFrameworkOp, step * CpuProgram::kStepNs + late_ns + i * 20'000, 10'000, 0, -1,
                              stack);
    }
  }
  return program;
}

TEST(SlowLines, AreStretchesBesideManyShortGapsOfTheSameLine) {
  const auto found = Program().Find("slow-lines");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 610'000, 10'000);
  EXPECT_EQ(found.Of(0, "line"), "train.py:7");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("mostly between aten::mean and aten::linear"));
  EXPECT_THAT(found.Of(0, "finding"), Not(HasSubstr("_ops.py")));
}

TEST(SlowLines, AreNotWhereTheThreadWasInterruptedOnce) {
  const auto found = Program(/*is_interrupted=*/true).Find("slow-lines");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 580'000, 10'000);
}

// Keras saves, as a function of the program asks, which keras calls, or the program itself.
TEST(SlowLines, AreWhatACallbackAsksFor) {
  for (const bool is_callback : {true, false}) {
    CpuProgram program;
    program.UseTorch();
    std::vector<ModelBuilder::Frame> frames = {{"/opt/lib/python3.11/site-packages/keras/src/saving.py", "save", 9},
                                               {"/home/u/train.py", "on_batch_end", 7}};
    if (is_callback) frames.push_back({"/opt/lib/python3.11/site-packages/keras/src/trainer.py", "fit", 5});
    frames.push_back({"/home/u/train.py", "<module>", 30});
    const StackIndex stack = program.builder().AddStack(frames);
    for (int64_t ns = 0; ns < CpuProgram::kSteps * CpuProgram::kStepNs; ns += CpuProgram::kStepNs / 2)
      program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, ns, 100'000, 0, -1, stack);
    const auto found = program.Find("slow-lines");
    ASSERT_THAT(found.rows, SizeIs(1));
    EXPECT_EQ(absl::StartsWith(found.Of(0, "advice"), "That is what on_batch_end asks keras for"), is_callback)
        << found.Of(0, "advice");
  }
}

// The text of the lines, and of a function that they call, says what is slow.
CpuProgram KnownProgram(const std::string& path, const std::string& rows = "[row for _, row in table.iterrows()]") {
  std::ofstream(path) << "def rows(table):\n  return " << rows
                      << "\nfor i in range(9):\n  x = rows(table)\n  y = f(x)\n";
  CpuProgram program;
  program.process().realtime_offset_ns = (std::time(nullptr) + 60) * 1'000'000'000;
  return program;
}

TEST(SlowLines, AreKnownByTheirText) {
  const std::string path = testing::TempDir() + "/known_rows.py";
  const auto find = [&path](CpuProgram program) {
    program.UseTorch();
    const StackIndex stack = program.builder().AddStack({{path, "<module>", 5}});
    for (int64_t ns = 0; ns < CpuProgram::kSteps * CpuProgram::kStepNs; ns += CpuProgram::kStepNs)
      program.builder().Scope("aten::mul", ScopeKind::kFrameworkOp, ns, 100'000, 0, -1, stack);
    return program.Find("slow-lines");
  };
  const auto found = find(KnownProgram(path));
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("(among these lines, or what they call here: .iterrows, which goes"));
  EXPECT_THAT(found.Of(0, "advice"), testing::StartsWith(".iterrows: take whole columns"));
  for (const char* other : {"DataParallel(table)", "table ** 32"}) {  // no Parallel(, no ** 3
    const auto longer = find(KnownProgram(path, other));
    ASSERT_THAT(longer.rows, SizeIs(1)) << other;
    EXPECT_THAT(longer.Of(0, "finding"), testing::Not(HasSubstr("among these lines"))) << other;
  }
}

// Of a run without steps: samples in pandas' function, again and again or once; or at the line that calls the function which calls
// it.
TEST(SlowLines, AreKnownInSamples) {
  const std::string path = testing::TempDir() + "/known_rows.py";
  {
    CpuProgram program = KnownProgram(path);
    for (int i = 0; i < 10; ++i)
      program.builder().Sample(i * 1'000'000, 900'000, kNone,
                               program.builder().AddStack({{path, "<module>", i % 2 == 0 ? 4U : 5U}}));
    EXPECT_THAT(program.FindInRun("slow-lines").rows, IsEmpty());
  }
  for (const bool is_again : {true, false}) {
    CpuProgram program = KnownProgram(path);
    const StackIndex known = program.builder().AddStack(
        {{"/opt/lib/python3.11/site-packages/pandas/frame.py", "DataFrame.iterrows", 9}, {path, "rows", 2}});
    const StackIndex other = program.builder().AddStack({{path, "<module>", 5}});
    for (int i = 0; i < 10; ++i)
      program.builder().Sample(i * 1'000'000, 900'000, kNone, (is_again ? i % 2 : i / 5) == 0 ? known : other);
    const auto found = program.FindInRun("slow-lines");
    ASSERT_THAT(found.rows, SizeIs(is_again ? 1 : 0));
    if (is_again) {
      EXPECT_EQ(found.Of(0, "line"), "known_rows.py:2");
    }
  }
}

// What a forked process does has its parent's frames around it.
TEST(SlowLines, MoveObjectsBetweenProcesses) {
  CpuProgram program;
  const StackIndex stack =
      program.builder().AddStack({{"/usr/lib/python3.11/multiprocessing/connection.py", "recv", 250},
                                  {"/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314},
                                  {"/home/u/work.py", "<module>", 5}});
  for (int i = 0; i < 10; ++i) program.builder().Sample(i * 1'000'000, 900'000, kNone, stack);
  const auto found = program.FindInRun("slow-lines");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("multiprocessing (work.py:5) pickles and moves objects"));
}

// Requests of 100 us in tasks of asyncio, and what the thread is blocked in for the rest of each millisecond.
TEST(SlowLines, BlockTheEventLoop) {
  for (const auto& [blocked_in, caller] : {std::pair("sleep", "/home/u/main.py"),
                                           {"poll", "/home/u/main.py"},
                                           {"sleep", "/usr/lib/python3.11/site-packages/ipykernel/kernelapp.py"}}) {
    CpuProgram program(StepKind::kInference);
    ModelBuilder& builder = program.builder();
    program.process().pid = builder.model().threads.front().tid = 7;
    const OpIndex op = builder.AddOp(GemmDefinition(1, 64, 64, "NN"));
    const StackIndex stack =
        builder.AddStack({{"/home/u/serve.py", "handle", 7},
                          {"/usr/lib/python3.11/asyncio/base_events.py", "BaseEventLoop._run_once", 1909},
                          {caller, "start", 7}});
    CounterSeries states = {.thread = 0, .tid = 7, .kind = CounterKind::kStates};
    for (const char* name : {"running", "queued", blocked_in}) states.names.push_back(builder.AddName(name));
    for (uint64_t step = 0; step < CpuProgram::kSteps; ++step) {
      builder.Call(op, static_cast<int64_t>(step) * CpuProgram::kStepNs, 100'000);
      builder.StackOfLastCall(stack);
      states.time_ns.push_back(static_cast<int64_t>(step) * CpuProgram::kStepNs);
      for (const uint64_t ns : {100'000, 0, 900'000}) states.value.push_back(step * ns);
    }
    builder.model().states = {states};
    const auto found = program.Find("slow-lines");
    const bool is_said = found.rows.size() == 1 && absl::StrContains(found.Of(0, "finding"), "event loop is blocked");
    EXPECT_EQ(is_said, absl::string_view(blocked_in) == "sleep" && absl::EndsWith(caller, "main.py"));
    if (!is_said) continue;
    EXPECT_THAT(found.Of(0, "finding"), HasSubstr("(sleep) for 8.10 ms of 9.00 ms from the first request to the last"));
    EXPECT_EQ(found.Of(0, "line"), "serve.py:7");
  }
}

TEST(SlowLines, AreNotPythonBoundsToo) { EXPECT_THAT(Program().Find("python-bound").rows, IsEmpty()); }

// Behind the last operation of each step, so many tensors are released, `apart_ns` from each other.
CpuProgram::Found Releasing(int tensors, int64_t apart_ns) {
  CpuProgram program = Program();
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    for (int i = 0; i < tensors; ++i) {
      MemoryEvent event;
      event.time_ns = step * CpuProgram::kStepNs + 400'000 + i * apart_ns;
      program.builder().model().memory.push_back(event);
    }
  }
  return program.Find("slow-lines");
}

TEST(SlowLines, ReleaseTensors) {
  const auto found = Releasing(50, 10'000);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("(train.py:7) releases tensors, 50 at a time, for "));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("What ends there held them"));
  // The last ones: what lies between is Python's.
  for (const auto& few : {Releasing(20, 10'000), Releasing(1, 10'000), Releasing(2, 500'000), Releasing(6, 90'000)})
    EXPECT_THAT(few.Of(0, "finding"), HasSubstr("runs Python or native code"));
}

// Calls of a library 50 us apart, with nothing around them but Python: with a framework they are many short gaps.
TEST(SlowLines, AreShorterWithoutAFramework) {
  for (const bool uses_torch : {false, true}) {
    CpuProgram program(StepKind::kInference);
    if (uses_torch) program.UseTorch();
    const OpIndex op = program.builder().AddOp(GemmDefinition(1, 64, 64, "NN"));
    const StackIndex stack = program.builder().AddStack({{"/home/u/serve.py", "<module>", 7}});
    for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += 60'000) {
      program.builder().Call(op, at_ns, 10'000);
      program.builder().StackOfLastCall(stack);
    }
    EXPECT_THAT(program.Find("slow-lines").rows, SizeIs(uses_torch ? 0 : 1));
  }
}

TEST(SlowLines, StartProcessesInEachStep) {
  for (const int processes : {0, 2}) {
    CpuProgram program = Program();
    program.process().pid = 7;
    for (int i = 0; i < processes * CpuProgram::kSteps; ++i) {
      ProcessInfo child = {.pid = 8 + static_cast<uint32_t>(i), .parent_pid = 7};
      child.start_ns = i / processes * CpuProgram::kStepNs + 700'000;
      program.builder().model().processes.push_back(child);
    }
    const auto found = program.Find("slow-lines");
    ASSERT_THAT(found.rows, SizeIs(1));
    const bool is_said = absl::StrContains(found.Of(0, "finding"), "2 processes begin in each training step");
    EXPECT_EQ(is_said, processes > 0) << found.Of(0, "finding");
    EXPECT_EQ(absl::StartsWith(found.Of(0, "advice"), "Start processes once"), processes > 0);
  }
}

}  // namespace slow_lines_test
}  // namespace dlhook::analyzer
