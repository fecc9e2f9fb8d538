// Rules faster-form and op-by-op: forms that are in use already, or switched off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace faster_form_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(FasterForm, IsInUse) {
  for (const char* name : {"aten::_scaled_dot_product_attention_math", "aten::softmax"}) {
    CpuProgram program;
    program.UseTorch();
    program.Scope("aten::matmul", 0, 100'000);
    program.Scope(name, 100'000, 300'000);
    program.Scope("aten::matmul", 400'000, 100'000);
    const auto found = program.Find("faster-form");
    ASSERT_THAT(found.rows, SizeIs(1));
    const bool is_used = absl::StrContains(name, "scaled_dot");
    EXPECT_THAT(found.Of(0, "advice"), is_used ? HasSubstr("scaled_dot_product_attention has no fused form for these")
                                               : HasSubstr("torch.nn.functional.scaled_dot_product_attention(q, k, v"));
  }
}

// Steps of four backward passes, with so many reductions of gradients, which take 400 us of 1 ms in all.
std::vector<Finding> Reduced(int reductions) {
  constexpr int kSteps = 10;
  constexpr int64_t kStepNs = 1'000'000;
  ModelBuilder builder;
  StepTrack track;
  for (int step = 0; step < kSteps; ++step) {
    const int64_t at_ns = step * kStepNs;
    track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + kStepNs, .kind = StepKind::kTraining});
    track.steps.back().micro_steps = 4;
    for (int i = 0; i < reductions; ++i)
      builder.Scope("c10d::allreduce_", ScopeKind::kFrameworkOp, at_ns + i * 100'000, 400'000 / reductions);
  }
  TraceModel model = builder.Build(kSteps * kStepNs);
  model.processes.front().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  Attribution attribution;
  attribution.layers.emplace_back().name = "linear";
  while (attribution.of_scope.size() < model.scopes.size())
    attribution.of_scope.push_back({0, LayerDirection::kBackwardWeights});
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<Finding> findings;
  for (const RuleFinding& found : FindAll(facts)) {
    if (found.rule == "faster-form") findings.push_back(found.finding);
  }
  return findings;
}

TEST(FasterForm, ReducesGradientsOnce) {
  const std::vector<Finding> found = Reduced(8);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_NEAR(found[0].gain_ns, 300'000, 1'000);
  EXPECT_THAT(found[0].sentence, HasSubstr("in each of 4 backward passes before an update, 8 times a training step"));
  EXPECT_THAT(found[0].advice, HasSubstr("model.no_sync()"));
  EXPECT_THAT(Reduced(2), IsEmpty());
}

TEST(OpByOp, IsSwitchedOn) {
  for (const char* file : {"polymorphic_function.py", "ops.py"}) {
    CpuProgram program;
    program.process().capabilities.push_back({.name = "library", .object = "libtensorflow_cc.so.2", .reason = ""});
    const StackIndex stack = program.builder().AddStack(
        {{"train.py", "step", 12},
         {absl::StrCat("/opt/lib/python3.11/site-packages/tensorflow/python/eager/", file), "__call__", 1},
         {"train.py", "<module>", 17}});
    for (int i = 0; i < 40 * CpuProgram::kSteps; ++i)
      program.builder().Scope("EagerLocalExecute: Mul", ScopeKind::kTraceMe, i * CpuProgram::kStepNs / 40, 10'000, 0,
                              -1, stack);
    const auto found = program.Find("op-by-op");
    ASSERT_THAT(found.rows, SizeIs(1));
    const bool is_function = absl::string_view(file) == "polymorphic_function.py";
    EXPECT_THAT(found.Of(0, "advice"), is_function ? HasSubstr("take out tf.config.run_functions_eagerly(True)")
                                                   : HasSubstr("Put @tf.function"));
  }
}

}  // namespace faster_form_test
}  // namespace dlhook::analyzer
