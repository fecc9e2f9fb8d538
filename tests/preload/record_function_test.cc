// Pure parts of the RecordFunction tap.
#include "preload/tap/record_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dlhook {
namespace {

TEST(KindOfTorchScope, EveryKindThatBracketsSomething) {
  EXPECT_EQ(KindOfTorchScope(TorchScope::kFunction), ScopeKind::kFrameworkOp);
  EXPECT_EQ(KindOfTorchScope(TorchScope::kBackwardFunction), ScopeKind::kBackwardNode);
  EXPECT_EQ(KindOfTorchScope(TorchScope::kUserScope), ScopeKind::kUserRange);
  EXPECT_EQ(KindOfTorchScope(TorchScope::kTorchScriptFunction), ScopeKind::kFrameworkRange);
  EXPECT_EQ(KindOfTorchScope(TorchScope::kBuildFeature), ScopeKind::kUnknown);
  EXPECT_EQ(static_cast<int>(TorchScope::kUserScope), 7) << "PyTorch's own number";
}

TEST(TorchVersion, OfAbi) {
  TorchVersion version = TorchVersionOfAbi(0x020d000000000000);
  EXPECT_EQ(version.major, 2u);
  EXPECT_EQ(version.minor, 13u);
  EXPECT_TRUE(IsTriedTorchVersion(version));
  EXPECT_TRUE(IsTriedTorchVersion({2, 15}));
  EXPECT_TRUE(IsTriedTorchVersion({2, 6}));
  EXPECT_FALSE(IsTriedTorchVersion({2, 5}));
  EXPECT_FALSE(IsTriedTorchVersion({2, 16}));
  EXPECT_FALSE(IsTriedTorchVersion({3, 13}));
}

TEST(TorchVersion, OfFile) {
  TorchVersion version = TorchVersionOfFile("libtorch_cpu.so.1.13");
  EXPECT_EQ(version.major, 1u);
  EXPECT_EQ(version.minor, 13u);
  EXPECT_TRUE(IsTriedTorchVersion(version));
  EXPECT_EQ(TorchVersionOfFile("libtorch_cpu.so").major, 0u);
  EXPECT_EQ(TorchVersionOfFile("libtorch_cpu.so.7").major, 0u);
}

TEST(TorchVersion, OfText) {
  TorchVersion version = TorchVersionOfText("__all__ = ['__version__']\n__version__ = '2.6.0+cu124'\ndebug = False\n");
  EXPECT_EQ(version.major, 2u);
  EXPECT_EQ(version.minor, 6u);
  EXPECT_EQ(TorchVersionOfText("").major, 0u);
  EXPECT_EQ(TorchVersionOfText("__version__ = 'unknown'").major, 0u);
}

TEST(EndsTrainingStep, ByName) {
  EXPECT_TRUE(EndsTrainingStep("Optimizer.step#SGD.step"));
  EXPECT_FALSE(EndsTrainingStep("Optimizer.zero_grad#SGD.zero_grad"));
  EXPECT_FALSE(EndsTrainingStep("Optimizer.step"));
  EXPECT_FALSE(EndsTrainingStep(""));
}

// The numbers (from 1) of the recorded steps, of `count` steps of `step_ms` each.
std::vector<int> RecordedSteps(int count, uint64_t step_ms) {
  DutyCycle duty;
  uint64_t now_ms = 1000000;
  duty.Begin(now_ms);
  bool recorded = true;
  std::vector<int> steps;
  for (int step = 1; step <= count; ++step) {
    if (recorded) steps.push_back(step);
    recorded = duty.TimePassed(now_ms += step_ms / 2);
    recorded = duty.StepEnded(now_ms += step_ms / 2);
  }
  return steps;
}

TEST(DutyCycle, FirstStepsThenTwoOfSixteen) {
  std::vector<int> expected;
  for (int step = 1; step <= 20; ++step) expected.push_back(step);
  for (int step : {33, 34, 49, 50, 65, 66}) expected.push_back(step);
  EXPECT_EQ(RecordedSteps(70, 10), expected);
}

TEST(DutyCycle, SlowStepsAreStepsToo) { EXPECT_EQ(RecordedSteps(60, 9000), RecordedSteps(60, 10)); }

// Share of the milliseconds from `begin_ms` to `end_ms` that is recorded while no step ends.
double RecordedShare(DutyCycle* duty, uint64_t begin_ms, uint64_t end_ms) {
  uint64_t recorded = 0;
  for (uint64_t now_ms = begin_ms; now_ms < end_ms; ++now_ms) recorded += duty->TimePassed(now_ms) ? 1 : 0;
  return static_cast<double>(recorded) / static_cast<double>(end_ms - begin_ms);
}

TEST(DutyCycle, WithoutStepsTimeDecides) {
  DutyCycle duty;
  duty.Begin(500);
  EXPECT_EQ(RecordedShare(&duty, 500, 2500), 1.0);
  EXPECT_EQ(RecordedShare(&duty, 2500, 2500 + 10 * 800), 0.125);
}

TEST(DutyCycle, StepsTakeOverFromTimeAndGiveBack) {
  DutyCycle duty;
  duty.Begin(0);
  EXPECT_EQ(RecordedShare(&duty, 2000, 10000), 0.125);
  uint64_t now_ms = 10000;
  int recorded = 0;
  for (int step = 1; step < 20; ++step) recorded += duty.StepEnded(now_ms += 10) ? 1 : 0;
  EXPECT_EQ(recorded, 19) << "the first steps";
  EXPECT_FALSE(duty.StepEnded(now_ms += 10));
  EXPECT_EQ(RecordedShare(&duty, now_ms, now_ms + 2000), 0.0) << "inside a step that takes its time";
  EXPECT_EQ(RecordedShare(&duty, now_ms + 3000, now_ms + 11000), 0.125) << "training is over";
}

}  // namespace
}  // namespace dlhook
