// Rule python-lock, by looks at a main thread in a lock while another thread runs (real ones: tests/frameworks).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace python_lock_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Three looks in each step of 1 ms find the main thread in a lock, between two operations or within one.
CpuProgram Waiting(bool between, int64_t other_runs_ns) {
  CpuProgram program;
  program.UseTorch();
  ModelBuilder& builder = program.builder();
  program.process().pid = 7;
  builder.model().threads.front().tid = 7;
  const StackIndex stack = builder.AddStack({{"train.py", "<module>", 7}});
  CounterSeries main = {.thread = 0, .tid = 7, .kind = CounterKind::kStates}, other = {.thread = kNone, .tid = 8};
  other.kind = CounterKind::kStates;
  for (CounterSeries* series : {&main, &other}) {
    for (const char* name : {"running", "queued", "lock"}) series->names.push_back(builder.AddName(name));
  }
  uint64_t looks = 0;
  for (int64_t step_ns = 0; step_ns < CpuProgram::kSteps * CpuProgram::kStepNs; step_ns += CpuProgram::kStepNs) {
    builder.Scope("aten::mul", ScopeKind::kFrameworkOp, step_ns, between ? 100'000 : 980'000, 0, -1, stack);
    builder.Scope("aten::add", ScopeKind::kFrameworkOp, step_ns + 990'000, 5'000, 0, -1, stack);
    for (const int64_t at_ns : {250'000, 500'000, 750'000}) {
      main.time_ns.push_back(step_ns + at_ns);
      other.time_ns.push_back(step_ns + at_ns);
      for (const uint64_t ns : {133'000, 0, 200'000}) main.value.push_back(looks * ns);
      for (const auto ns : {static_cast<uint64_t>(other_runs_ns), uint64_t{0}, uint64_t{0}})
        other.value.push_back(looks * ns);
      ++looks;
    }
  }
  builder.model().states = {main, other};
  program.Load(1.5, 2);
  return program;
}

TEST(PythonLock, IsWaitedForBetweenOperationsWhileAnotherThreadRuns) {
  const auto found = Waiting(true, 300'000).Find("python-lock");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 600'000, 60'000);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Thread 8 of the same process runs"));
}

TEST(PythonLock, IsNotAPoolThatAnOperationWaitsForNorALockThatNobodyRunsWith) {
  EXPECT_THAT(Waiting(false, 300'000).Find("python-lock").rows, IsEmpty());
  EXPECT_THAT(Waiting(true, 100'000).Find("python-lock").rows, IsEmpty());
}

TEST(PythonLock, OfAnotherThreadThatWorksAloneSlowLinesTell) {
  const auto found = Waiting(true, 300'000).Find("slow-lines");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Only one other thread of the program works meanwhile (8: "));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("hand all of them to the threads first"));
  const auto idle = Waiting(true, 100'000).Find("slow-lines");
  ASSERT_THAT(idle.rows, SizeIs(1));
  EXPECT_THAT(idle.Of(0, "advice"), HasSubstr("Wait for it in another thread"));
}

}  // namespace python_lock_test
}  // namespace dlhook::analyzer
