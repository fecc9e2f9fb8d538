// Rule needless-backward: several backward passes through one forward pass; gradients that no optimizer reads (of real programs:
// tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/rules.h"
#include "analyzer/steps/compared_steps.h"
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

// Steps of 1 ms in which so many parameters get a gradient, 600 us in all, and optimizers, by name, update so many each; the
// program itself adds to so many tensors.
std::vector<Finding> Unread(int gradients, const std::vector<std::pair<std::string, int>>& optimizers, int own = 0,
                            const char* own_op = "aten::add_") {
  ModelBuilder builder;
  Attribution attribution;
  attribution.layers.emplace_back().name = "net";
  attribution.layers.back().module = "net";
  for (const auto& [name, count] : optimizers) attribution.layers.emplace_back().name = "optimizer (" + name + ")";
  StepTrack track;
  for (int64_t at_ns = 0; at_ns < CpuProgram::kSteps * CpuProgram::kStepNs; at_ns += CpuProgram::kStepNs) {
    int64_t now_ns = at_ns;
    const auto scope = [&](const char* name, ScopeKind kind, int64_t ns, Place place) {
      builder.Scope(name, kind, now_ns, ns);
      attribution.of_scope.push_back(place);
      now_ns += ns;
    };
    track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + CpuProgram::kStepNs, .kind = StepKind::kTraining});
    for (int i = 0; i < gradients; ++i) {
      scope("torch::autograd::AccumulateGrad", ScopeKind::kBackwardNode, 600'000 / gradients,
            {0, LayerDirection::kBackward});
    }
    for (LayerIndex layer = 1; layer <= optimizers.size(); ++layer) {
      const std::string& name = optimizers[layer - 1].first;
      scope(("Optimizer.zero_grad#" + name + ".zero_grad").c_str(), ScopeKind::kUserRange, 100,
            {layer, LayerDirection::kUpdate});
      scope(("Optimizer.step#" + name + ".step").c_str(), ScopeKind::kUserRange, 100, {layer, LayerDirection::kUpdate});
      for (int i = 0; i < optimizers[layer - 1].second; ++i) {
        if (name != "SGD") scope("aten::mul_", ScopeKind::kFrameworkOp, 2000, {layer, LayerDirection::kUpdate});
        scope("aten::addcdiv_", ScopeKind::kFrameworkOp, 2000, {layer, LayerDirection::kUpdate});
      }
    }
    for (int i = 0; i < own; ++i) scope(own_op, ScopeKind::kFrameworkOp, 2000, {});
  }
  TraceModel model = builder.Build(CpuProgram::kSteps * CpuProgram::kStepNs);
  model.processes.front().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<Finding> findings;
  for (const RuleFinding& found : FindAll(facts)) {
    if (found.rule == "needless-backward") findings.push_back(found.finding);
  }
  return findings;
}

TEST(NeedlessBackward, ComputesGradientsThatNoOptimizerReads) {
  const std::vector<Finding> found = Unread(20, {{"Adam", 10}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_NEAR(found[0].gain_ns, 300'000, 1000);
  EXPECT_THAT(found[0].sentence, HasSubstr("20 gradients of parameters are computed for every 10"));
  EXPECT_THAT(Unread(12, {{"Adam", 10}}), IsEmpty());
  EXPECT_THAT(Unread(12, {{"SGD", 12}}), IsEmpty());  // whose one operation is fewer than its ranges
}

TEST(NeedlessBackward, CountsWhatAllOptimizersUpdate) {
  EXPECT_THAT(Unread(20, {{"Adam", 10}, {"SGD", 10}}), IsEmpty());
  EXPECT_THAT(Unread(20, {{"Adam", 5}, {"SGD", 5}}), SizeIs(1));
  EXPECT_THAT(Unread(20, {{"Adam", 5}, {"Lion", 5}}), IsEmpty());  // not known how that updates
}

TEST(NeedlessBackward, IsSilentWhereTheProgramUpdatesTheRest) {
  EXPECT_THAT(Unread(20, {{"Adam", 10}}, 10), IsEmpty());
  EXPECT_THAT(Unread(20, {{"Adam", 10}}, 2), SizeIs(1));
}

TEST(NeedlessBackward, IsSilentWhereGradientsAreGatheredInOneTensor) {
  EXPECT_THAT(Unread(20, {{"Adam", 1}}, 20, "aten::copy_"), IsEmpty());
  EXPECT_THAT(Unread(20, {{"Adam", 10}}, 2, "aten::copy_"), SizeIs(1));
}

TEST(NeedlessBackward, DoesNotCountSparseUpdates) {
  EXPECT_THAT(Unread(20, {{"Adam", 10}}, 1, "aten::embedding_sparse_backward"), IsEmpty());
}

}  // namespace needless_backward_test
}  // namespace dlhook::analyzer
