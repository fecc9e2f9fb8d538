// What recording takes, which is no gain: on steps of known scopes (in PyTorch: tests/frameworks/test_findings.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/rules.h"
#include "tests/analyzer/diff/training_run.h"
#include "tests/analyzer/findings/cpu_program.h"

namespace dlhook::analyzer {
namespace {

TEST(OwnCostTest, IsTakenOffTheGain) {
  Finding finding = {.gain_ns = 1'000'000, .confidence = Confidence::kMedium, .evidence = "table layers"};
  SubtractOwnCost(40'000, finding);
  EXPECT_EQ(finding.gain_ns, 960'000);
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_EQ(finding.evidence, "table layers; about 40.0 us for recording was subtracted");
  SubtractOwnCost(100'000, finding);
  EXPECT_EQ(finding.gain_ns, 860'000);
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  SubtractOwnCost(0, finding);
  EXPECT_EQ(finding.evidence.rfind("subtracted"), finding.evidence.size() - 10);
  SubtractOwnCost(2'000'000, finding);
  EXPECT_EQ(finding.gain_ns, 0);
}

TEST(OwnCostTest, EachScopeOfPyTorchTakesTime) {
  RunSpec spec;
  spec.layers = Layers(20);
  for (const bool is_torch : {false, true}) {
    TrainingRun run(spec);
    if (is_torch) run.model().processes.front().capabilities.push_back({.object = "/lib/libtorch_cpu.so"});
    const StepFacts facts(run.model(), run.analyzed().options);
    EXPECT_NEAR(CostOfScopes(facts, [](ScopeIndex) { return true; }), is_torch ? 40 * 400 : 0, 1);
    const auto is_forward = [&](ScopeIndex scope) {
      return facts.attribution().of_scope[scope].direction == LayerDirection::kForward;
    };
    EXPECT_NEAR(CostOfScopes(facts, is_forward), is_torch ? 20 * 400 : 0, 1);
  }
}

double CostOfAllScopes(TrainingRun& run) {
  run.model().processes.front().capabilities.push_back({.object = "/lib/libtorch_cpu.so"});
  return CostOfScopes(StepFacts(run.model(), run.analyzed().options), [](ScopeIndex) { return true; });
}

// In a trace whose scopes begin 60 ns after those around them, recording took no more than twice that for each.
TEST(OwnCostTest, IsAtMostWhatPassesFromAScopeToTheOneInIt) {
  for (const int64_t apart_ns : {60, 600}) {
    CpuProgram program;
    const StackIndex lines[] = {program.builder().AddStack({{"train.py", "<module>", 7}}),
                                program.builder().AddStack({{"train.py", "<module>", 8}})};  // of one it is a loop
    for (int64_t i = 0; i < 20 * CpuProgram::kSteps; ++i) {
      program.builder().Scope("aten::linear", ScopeKind::kFrameworkOp, i * 50'000, 5'000, 0, -1, lines[i % 2]);
      program.builder().Scope("aten::addmm", ScopeKind::kFrameworkOp, i * 50'000 + apart_ns, 1'000, 0, -1,
                              lines[i % 2]);
    }
    program.UseTorch();
    const auto found = program.Find("python-bound");
    ASSERT_THAT(found.rows, testing::SizeIs(1));
    EXPECT_THAT(found.Of(0, "evidence"),
                testing::HasSubstr(apart_ns == 60 ? "about 4.80 us for recording" : "about 16.0 us for recording"));
  }
}

TEST(OwnCostTest, WhatOthersTookToRecordIsNotKnown) {
  RunSpec spec;
  spec.layers = Layers(20);
  TrainingRun run(spec);
  run.model().processes.front().capabilities.push_back({.name = "library-calls", .state = CapabilityState::kAbsent});
  EXPECT_EQ(CostOfAllScopes(run), 0);
}

}  // namespace
}  // namespace dlhook::analyzer
