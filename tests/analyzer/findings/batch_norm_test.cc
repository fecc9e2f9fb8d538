// Rule batch-norm-in-inference: where it begins; input-gradient: which layers are judged.
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

// A first layer of so many products, with one of the gradient of its input, or of its own results.
size_t InputGradients(int products) {
  CpuProgram program;
  program.UseTorch();
  for (int i = 0; i < products; ++i) {
    const OpIndex op = program.builder().AddOp(GemmDefinition(64, 64, 32 + i, "TN"));
    for (int64_t at_ns = 1000; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs)
      program.builder().Call(op, at_ns + i * 100'000, 90'000);
    program.LayerOf(op, {.name = "0", .module = "0", .type = "linear"});
  }
  const OpIndex gradient = program.builder().AddOp(GemmDefinition(32, 64, 64, "NN"));
  for (int64_t at_ns = 1000; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs)
    program.builder().Call(gradient, at_ns + 500'000, 200'000);
  program.LayerOf(gradient, {.name = "0", .module = "0", .type = "linear"}, LayerDirection::kBackwardData);
  return program.Find("input-gradient").rows.size();
}

TEST(InputGradient, IsNotWhatAttentionNeedsForItself) {
  EXPECT_EQ(InputGradients(1), 1u);
  EXPECT_EQ(InputGradients(3), 0u);
}

}  // namespace batch_norm_test
}  // namespace dlhook::analyzer
