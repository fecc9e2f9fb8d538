// Rule repeated-work: passes of a model that generates, and computes all earlier tokens again (what else is repeated:
// tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace repeated_work_test {

using testing::HasSubstr;
using testing::IsEmpty;

// Ten requests, each a layer's product of so many rows.
CpuProgram::Found Passes(int64_t first, int64_t grows_by) {
  CpuProgram program(StepKind::kInference);
  for (int step = 0; step < CpuProgram::kSteps; ++step) {
    const int64_t start_ns = step * CpuProgram::kStepNs;
    const OpIndex op = program.builder().AddOp(GemmDefinition(64, first + step * grows_by, 32, "TN"));
    program.builder().Call(op, start_ns + 2000, 400'000);
    program.LayerOf(op, {.name = "fc"});
  }
  return program.Find("repeated-work");
}

TEST(RepeatedWork, RowsGrowByTheNewToken) {
  const auto found = Passes(16, 1);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_THAT(found.Of(0, "finding"), HasSubstr("Each pass has 1 row more than the one before"));
  EXPECT_THAT(found.Of(0, "advice"), HasSubstr("use_cache=True"));
}

TEST(RepeatedWork, RowsStayOrOthersCome) {
  EXPECT_THAT(Passes(16, 0).rows, IsEmpty());
  EXPECT_THAT(Passes(16, 20).rows, IsEmpty());  // batches, not tokens
}

}  // namespace repeated_work_test
}  // namespace dlhook::analyzer
