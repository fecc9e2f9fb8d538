// Rule unfused-ops: chains of elementwise operations behind a product.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/findings_table.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace unfused_ops_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kStepNs = 1'000'000;
constexpr int kSteps = 10;

using Ops = std::vector<std::pair<std::string, int64_t>>;  // and how long each takes

struct Spec {
  Ops ops;
  LayerDirection direction = LayerDirection::kForward;
  bool is_torch = true;
  int64_t page_faults = 0;  // of a step, 1 us each
};

// Gains in a step.
std::vector<int64_t> Gains(const Spec& spec) {
  ModelBuilder builder;
  StepTrack track;
  for (int step = 0; step < kSteps; ++step) {
    int64_t at_ns = step * kStepNs;
    track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + kStepNs, .kind = StepKind::kInference});
    for (const auto& [name, ns] : spec.ops) {
      builder.Scope("aten::" + name, ScopeKind::kFrameworkOp, at_ns, ns);
      at_ns += ns;
    }
  }
  TraceModel model = builder.Build(kSteps * kStepNs);
  for (int64_t time_ns = 0; time_ns <= kSteps * kStepNs; time_ns += kStepNs / 2) {
    model.loads.push_back({.time_ns = time_ns,
                           .processors = 2,
                           .page_faults = time_ns * spec.page_faults / kStepNs,
                           .system_ns = time_ns,
                           .page_fault_ns = 1000});
  }
  if (spec.is_torch) {
    model.processes.front().capabilities.push_back({.name = "library", .object = "libtorch_cpu.so", .reason = ""});
  }
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  Attribution attribution;
  attribution.layers.emplace_back().name = "conv";
  while (attribution.of_scope.size() < model.scopes.size()) attribution.of_scope.push_back({0, spec.direction});
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<int64_t> gains;
  for (const RuleFinding& found : FindAll(facts)) {
    if (found.rule == "unfused-ops") gains.push_back(static_cast<int64_t>(found.finding.gain_ns));
  }
  return gains;
}

TEST(UnfusedOps, PassOverTheirResultAgain) {
  EXPECT_THAT(Gains({{{"conv2d", 300'000}, {"mul", 100'000}, {"add", 100'000}}}), ElementsAre(100'000));
}
TEST(UnfusedOps, KeepWhatTheyCompute) {  // of the sigmoid only a pass goes
  EXPECT_THAT(Gains({{{"conv2d", 300'000}, {"sigmoid", 400'000}, {"mul", 100'000}}}), ElementsAre(100'000));
}
TEST(UnfusedOps, AreChainsAlone) {
  EXPECT_THAT(Gains({{{"conv2d", 300'000}, {"mul", 200'000}}}), IsEmpty());
  EXPECT_THAT(Gains({{{"sum", 300'000}, {"mul", 200'000}, {"add", 200'000}}}), IsEmpty());
  EXPECT_THAT(Gains({{{"conv2d", 300'000}, {"mul", 100'000}, {"sum", 50'000}, {"add", 100'000}}}), IsEmpty());
}
TEST(UnfusedOps, AreLarge) {
  EXPECT_THAT(Gains({{{"conv2d", 3'000}, {"mul", 19'000}, {"add", 19'000}, {"mul", 19'000}, {"add", 19'000}}}),
              IsEmpty());
  EXPECT_THAT(Gains({{{"conv2d", 3'000}, {"mul", 21'000}, {"add", 21'000}, {"mul", 21'000}, {"add", 21'000}}}),
              ElementsAre(63'000));
}
TEST(UnfusedOps, AreThoseOfPyTorchsForwardPass) {
  const Ops chain = {{"conv2d", 300'000}, {"mul", 100'000}, {"add", 100'000}};
  EXPECT_THAT(Gains({.ops = chain, .direction = LayerDirection::kBackward}), IsEmpty());
  EXPECT_THAT(Gains({.ops = chain, .is_torch = false}), IsEmpty());
}

// The pages of their results are new each time: that time is page-faults' own.
TEST(UnfusedOps, LeaveThePageFaultsAlone) {
  const Ops chain = {{"conv2d", 300'000}, {"mul", 100'000}, {"add", 100'000}, {"mul", 100'000}};
  EXPECT_THAT(Gains({.ops = chain, .page_faults = 60}), ElementsAre(140'000));
  EXPECT_THAT(Gains({.ops = chain, .page_faults = 190}), IsEmpty());
}

}  // namespace unfused_ops_test
}  // namespace dlhook::analyzer
