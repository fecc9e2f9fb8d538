// Rule needless-backward: several backward passes through one forward pass (gradients that no optimizer reads:
// tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace needless_backward_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// In each step of 1 ms half of it is one node of the graph, so many times; or a node in each of so many threads, whose numbers are
// their own.
CpuProgram::Found Find(int passes, bool in_threads = false) {
  CpuProgram program;
  program.UseTorch();
  ModelBuilder& builder = program.builder();
  const StackIndex line = builder.AddStack({{"train.py", "<module>", 26}});
  std::vector<ThreadIndex> threads = {0};
  while (in_threads && threads.size() < static_cast<size_t>(passes)) threads.push_back(builder.AddThread());
  for (int64_t step = 0; step < CpuProgram::kSteps; ++step) {
    for (int pass = 0; pass < passes; ++pass) {
      const int64_t ns = CpuProgram::kStepNs / 2 / passes;
      builder.Scope("AddmmBackward0", ScopeKind::kBackwardNode, step * CpuProgram::kStepNs + 1000 + pass * ns,
                    ns - 1000, threads[static_cast<size_t>(pass) % threads.size()], step, line);
    }
  }
  return program.Find("needless-backward");
}

TEST(NeedlessBackward, RunsThroughOneForwardPassAgainAndAgain) {
  const auto found = Find(8);
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_NEAR(found.Gain(0), 430'000, 10'000);
  EXPECT_EQ(found.Of(0, "line"), "train.py:26");
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("run 8 times through the same forward pass"));
}

TEST(NeedlessBackward, IsNotThatSeveralThreadsTrain) { EXPECT_THAT(Find(8, /*in_threads=*/true).rows, IsEmpty()); }

TEST(NeedlessBackward, IsNoGradientPenalty) { EXPECT_THAT(Find(2).rows, IsEmpty()); }

}  // namespace needless_backward_test
}  // namespace dlhook::analyzer
