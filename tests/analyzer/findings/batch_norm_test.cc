// Rule batch-norm-in-inference: where it begins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace batch_norm_test {

std::vector<size_t> Found(int64_t ns, StepKind kind = StepKind::kInference) {
  CpuProgram program(kind);
  program.UseTorch();
  program.Calls(OneDnnDefinition("onednn_verbose,v1,primitive,exec,cpu,batch_normalization,bnorm_jit:avx512_core,"
                                 "forward_inference,data:f32::blocked:acdb::f0 diff_undef::undef:::,,flags:GS,"
                                 "mb8ic16ih32iw32,0.1"),
                1, 1000, ns);
  return program.Find("batch-norm-in-inference").rows;
}

TEST(BatchNormInInference, TakesThreePercent) {
  EXPECT_THAT(Found(32'000), testing::SizeIs(1));
  EXPECT_THAT(Found(28'000), testing::IsEmpty());
  EXPECT_THAT(Found(100'000, StepKind::kTraining), testing::IsEmpty());
}

}  // namespace batch_norm_test
}  // namespace dlhook::analyzer
