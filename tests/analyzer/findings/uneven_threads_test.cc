// Rule uneven-threads: parts of a step that threads of the program compute, and the last of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace uneven_threads_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Part {  // of a step of 1 ms, in us
  int64_t start, end;
};

constexpr int64_t kUs = 1000;

void AddPart(CpuProgram& program, ThreadIndex thread, int step, const Part& part) {
  program.builder().Scope("aten::mm", ScopeKind::kFrameworkOp, step * CpuProgram::kStepNs + part.start * kUs,
                          (part.end - part.start) * kUs, thread);
}

// One thread for each part, beside the first; in every other step the parts change threads if they take turns.
CpuProgram Program(const std::vector<Part>& parts, uint32_t processors = 4, bool take_turns = false) {
  CpuProgram program;
  program.UseTorch();
  program.process().processors = processors;
  program.Scope("aten::sum", 950 * kUs, 20 * kUs);
  for (size_t i = 0; i < parts.size(); ++i) {
    const ThreadIndex thread = program.builder().AddThread();
    for (int step = 0; step < CpuProgram::kSteps; ++step) {
      AddPart(program, thread, step, parts[take_turns ? (i + static_cast<size_t>(step)) % parts.size() : i]);
    }
  }
  return program;
}

TEST(UnevenThreads, WaitForTheLast) {
  const auto found = Program({{100, 300}, {100, 900}, {110, 310}}).Find("uneven-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  // From 300 on two of three work, from 310 on one.
  EXPECT_NEAR(found.Gain(0), (10 * kUs) / 3 + (590 * kUs) * 2 / 3, 2);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("3 threads share a step's work unevenly"));
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("works for 800 us of it, the others for 200 us"));
  EXPECT_THAT(found.Of(0, "where"), HasSubstr("thread "));
}

TEST(UnevenThreads, CanOnlyUseProcessorsThatAreThere) {
  const auto found = Program({{100, 300}, {100, 900}, {100, 300}}, 2).Find("uneven-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Gain(0), 300 * kUs);
}

TEST(UnevenThreads, AreEvenEnough) {
  EXPECT_THAT(Program({{100, 800}, {110, 840}, {120, 820}}).Find("uneven-threads").rows, IsEmpty());
  EXPECT_THAT(Program({{100, 700}, {300, 900}}).Find("uneven-threads").rows, IsEmpty());  // only begins later
}

TEST(UnevenThreads, AreNotUnevenByTheirProcessors) {
  // The second thread is interrupted between its two operations; where only one of them has a product, they are unequal.
  for (const bool is_equal : {true, false}) {
    CpuProgram program = Program({{100, 300}, {100, 300}});
    const OpIndex product = program.builder().AddOp(GemmDefinition(64, 64, 64, "NN"));
    for (int step = 0; step < CpuProgram::kSteps; ++step) {
      for (const ThreadIndex thread : {1U, 2U}) {
        const int64_t start_us = thread == 1 ? 310 : 850;
        AddPart(program, thread, step, {start_us, start_us + 50});
        if (!is_equal && thread == 2) continue;
        program.builder().Call(product, step * CpuProgram::kStepNs + (start_us + 10) * kUs, 30 * kUs, thread);
      }
    }
    EXPECT_THAT(program.Find("uneven-threads").rows, SizeIs(is_equal ? 0 : 1)) << is_equal;
  }
}

TEST(UnevenThreads, MayDependOnEachOther) {
  EXPECT_THAT(Program({{100, 300}, {300, 900}}).Find("uneven-threads").rows, IsEmpty());
}

TEST(UnevenThreads, AreOnlyWaitedForByAThreadThatDoesNothing) {
  CpuProgram program = Program({{100, 300}, {100, 900}});
  program.Scope("aten::mul", 320 * kUs, 600 * kUs);
  EXPECT_THAT(program.Find("uneven-threads").rows, IsEmpty());
}

TEST(UnevenThreads, NeedMoreThanOne) { EXPECT_THAT(Program({{100, 900}}).Find("uneven-threads").rows, IsEmpty()); }

TEST(UnevenThreads, TakeTurnsOnAMachineOfTheirOwn) {
  CpuProgram program = Program({{100, 300}, {100, 900}}, 4, true);
  program.Load(1.5, 2);
  const auto found = program.Find("uneven-threads");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.Of(0, "where"), "threads");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("now for one, now for another"));
}

TEST(UnevenThreads, MayBeDisturbed) {
  CpuProgram program = Program({{100, 300}, {100, 900}}, 4, true);
  program.Load(1.5, 4);
  EXPECT_THAT(program.Find("uneven-threads").rows, IsEmpty());
}

TEST(UnevenThreads, AreAnExecutorsInTensorFlow) {
  CpuProgram program = Program({{100, 300}, {100, 900}});
  program.process().capabilities = {{.name = "library", .object = "libtensorflow_cc.so.2", .reason = ""}};
  EXPECT_THAT(program.Find("uneven-threads").rows, IsEmpty());
}

}  // namespace uneven_threads_test
}  // namespace dlhook::analyzer
