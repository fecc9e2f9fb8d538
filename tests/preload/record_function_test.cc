// Pure parts of the RecordFunction tap.
#include "preload/tap/record_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  TorchVersion version = TorchVersionIn("libtorch_cpu.so.1.13", kBeforeVersionOfFile);
  EXPECT_EQ(version.major, 1u);
  EXPECT_EQ(version.minor, 13u);
  EXPECT_TRUE(IsTriedTorchVersion(version));
  EXPECT_EQ(TorchVersionIn("libtorch_cpu.so", kBeforeVersionOfFile).major, 0u);
  EXPECT_EQ(TorchVersionIn("libtorch_cpu.so.7", kBeforeVersionOfFile).major, 0u);
}

TEST(TorchVersion, OfText) {
  TorchVersion version =
      TorchVersionIn("__all__ = ['__version__']\n__version__ = '2.6.0+cu124'\ndebug = False\n", kBeforeVersionOfWheel);
  EXPECT_EQ(version.major, 2u);
  EXPECT_EQ(version.minor, 6u);
  EXPECT_EQ(TorchVersionIn("", kBeforeVersionOfWheel).major, 0u);
  EXPECT_EQ(TorchVersionIn("__version__ = 'unknown'", kBeforeVersionOfWheel).major, 0u);
}

TEST(EndsTrainingStep, ByName) {
  EXPECT_TRUE(EndsTrainingStep("Optimizer.step#SGD.step"));
  EXPECT_FALSE(EndsTrainingStep("Optimizer.zero_grad#SGD.zero_grad"));
  EXPECT_FALSE(EndsTrainingStep("Optimizer.step"));
  EXPECT_FALSE(EndsTrainingStep(""));
}

constexpr uint64_t kStepUnit = 1000000;  // a millisecond, in ns

// The numbers (from 1) of the recorded steps, of `count` steps of `step_ms` each, that take `added_percent` longer while
// they are recorded.
std::vector<int> RecordedSteps(int count, uint64_t step_ms, uint32_t budget_ppm = 0, uint64_t added_percent = 0) {
  DutyCycle duty;
  uint64_t now_ns = 1000 * kStepUnit;
  duty.Begin(now_ns, budget_ppm);
  bool recorded = true;
  std::vector<int> steps;
  for (int step = 1; step <= count; ++step) {
    const uint64_t half_ns = step_ms * kStepUnit / 200 * (recorded ? 100 + added_percent : 100);
    if (recorded) steps.push_back(step);
    recorded = duty.TimePassed(now_ns += half_ns, 32, 0);
    recorded = duty.StepEnded(now_ns += half_ns, 0);
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

// What recording adds to all steps after the first ones, in millionths.
uint64_t AddedPpm(uint32_t budget_ppm, uint64_t added_percent) {
  constexpr int kSteps = 20000;
  const size_t recorded = RecordedSteps(kSteps, 10, budget_ppm, added_percent).size() - DutyCycle::kFirstSteps;
  return recorded * added_percent * 10000 / kSteps;
}

TEST(DutyCycle, KeepsTheBudget) {
  for (const uint64_t percent : {10, 30, 100, 300}) {
    EXPECT_LE(AddedPpm(10000, percent), 10600u) << percent;
    EXPECT_GE(AddedPpm(10000, percent), 8000u) << percent << ": more could have been recorded";
  }
  EXPECT_LE(AddedPpm(50000, 30), 50500u);
}

// A program that does something else in each tenth step is seen doing so in a tenth of the windows' steps, or nearly.
TEST(DutyCycle, WindowsMeetWhatComesRegularly) {
  const std::vector<int> steps = RecordedSteps(50000, 10, 10000, 20);  // 40 steps apart
  for (const int period : {10, 8, 5}) {
    const auto met = std::count_if(steps.begin(), steps.end(), [&](int step) { return step % period == 0; });
    EXPECT_NEAR(static_cast<double>(met) / static_cast<double>(steps.size()), 1.0 / period, 0.25 / period) << period;
  }
}

TEST(DutyCycle, RecordsAllButAFewIfThatKeepsTheBudget) {
  const std::vector<int> steps = RecordedSteps(10000, 10, 10000, 1);
  EXPECT_GT(steps.size(), 9800u);
  EXPECT_LT(steps.size(), 10000u) << "measures again now and then";
}

TEST(DutyCycle, FollowsACostThatGrows) {
  DutyCycle duty;
  uint64_t now_ns = 0;
  duty.Begin(now_ns, 10000);
  int recorded_late = 0;
  bool recorded = true;
  for (int step = 0; step < 8000; ++step) {
    const uint64_t added_ns = !recorded || step < 2000 ? 0 : 3 * kStepUnit;
    recorded = duty.StepEnded(now_ns += 10 * kStepUnit + added_ns, 0);
    if (step >= 4000 && recorded) ++recorded_late;
  }
  EXPECT_LE(recorded_late, 4000 / 60 * 2 + 6);
}

TEST(DutyCycle, DisturbedStepsDoNotCount) {
  DutyCycle duty;
  uint64_t now_ns = 0;
  duty.Begin(now_ns, 10000);
  size_t recorded_count = 0;
  bool recorded = true;
  for (int step = 0; step < 4000; ++step) {
    const uint64_t disturbed_ns = recorded && step % 2 == 0 ? 50 * kStepUnit : 0;
    recorded = duty.StepEnded(now_ns += 10 * kStepUnit + disturbed_ns, 0);
    recorded_count += recorded ? 1 : 0;
  }
  EXPECT_GT(recorded_count, 3800u);
}

// The machine becomes slower and faster for many steps at a time, as others use it, by more than recording costs.
TEST(DutyCycle, AMachineWhoseSpeedChangesCostsNoMore) {
  DutyCycle duty;
  uint64_t now_ns = 0;
  duty.Begin(now_ns, 10000);
  size_t recorded_count = 0;
  bool recorded = true;
  for (int step = 0; step < 10000; ++step) {
    const uint64_t speed = step / 37 % 2 == 0 ? 10 : 17;
    recorded = duty.StepEnded(now_ns += speed * kStepUnit * (recorded ? 13 : 10) / 10, 0);
    if (step >= 200 && recorded) ++recorded_count;
  }
  EXPECT_LE(recorded_count, 10000u / 60 * 2 + 20);
}

// What can't be told from noise costs at least what the observers took.
TEST(DutyCycle, TheObserversOwnTimeCounts) {
  DutyCycle duty;
  uint64_t now_ns = 0;
  duty.Begin(now_ns, 10000);
  size_t recorded_count = 0;
  bool recorded = true;
  for (int step = 0; step < 4000; ++step) {
    recorded = duty.StepEnded(now_ns += 10 * kStepUnit, recorded ? 3 * kStepUnit : 0);
    recorded_count += recorded ? 1 : 0;
  }
  EXPECT_LE(recorded_count, 4000u / 60 * 2 + 40);
}

// Share of the milliseconds from `begin_ms` to `end_ms` that is recorded while no step ends. In a millisecond 1000 operators
// run that are not recorded, or that many less by `added_percent`.
double RecordedShare(DutyCycle* duty, uint64_t begin_ms, uint64_t end_ms, uint64_t added_percent = 0) {
  uint64_t recorded = 0;
  bool was_recorded = false;
  for (uint64_t now_ms = begin_ms; now_ms < end_ms; ++now_ms) {
    const uint64_t operators = was_recorded ? 100'000 / (100 + added_percent) : 1000;
    was_recorded = duty->TimePassed(now_ms * kStepUnit, operators, 0);
    recorded += was_recorded ? 1 : 0;
  }
  return static_cast<double>(recorded) / static_cast<double>(end_ms - begin_ms);
}

TEST(DutyCycle, WithoutStepsTimeDecides) {
  DutyCycle duty;
  duty.Begin(500 * kStepUnit, 0);
  EXPECT_EQ(RecordedShare(&duty, 500, 2500), 1.0);
  EXPECT_EQ(RecordedShare(&duty, 2500, 2500 + 10 * 800), 0.125);
}

// Until the cost is known it is taken for 30 %: 31 windows of half a second.
TEST(DutyCycle, WithoutStepsABudgetIsKept) {
  constexpr uint64_t kSecond = 1000;  // in ms
  for (const uint64_t percent : {20, 60}) {
    DutyCycle duty;
    duty.Begin(500 * kStepUnit, 10000);
    EXPECT_EQ(RecordedShare(&duty, 500, 10500), 1.0);
    EXPECT_NEAR(RecordedShare(&duty, 10500, 10500 + 15500, percent), 1 / 31.0, 0.001);
    const double share = RecordedShare(&duty, 26000, 26000 + 3600 * kSecond, percent);
    EXPECT_NEAR(share * static_cast<double>(percent), 1, 0.06) << "percent";
  }
}

TEST(DutyCycle, WithoutStepsAllIsRecordedIfThatCostsNothing) {
  DutyCycle duty;
  duty.Begin(500 * kStepUnit, 10000);
  EXPECT_GT(RecordedShare(&duty, 500, 3'600'000, 0), 0.9);
}

TEST(DutyCycle, StepsTakeOverFromTimeAndGiveBack) {
  DutyCycle duty;
  duty.Begin(0, 0);
  EXPECT_EQ(RecordedShare(&duty, 2000, 10000), 0.125);
  uint64_t now_ms = 10000;
  int recorded = 0;
  for (int step = 1; step < 20; ++step) recorded += duty.StepEnded((now_ms += 10) * kStepUnit, 0) ? 1 : 0;
  EXPECT_EQ(recorded, 19) << "the first steps";
  EXPECT_FALSE(duty.StepEnded((now_ms += 10) * kStepUnit, 0));
  EXPECT_EQ(RecordedShare(&duty, now_ms, now_ms + 2000), 0.0) << "inside a step that takes its time";
  EXPECT_EQ(RecordedShare(&duty, now_ms + 3000, now_ms + 11000), 0.125) << "training is over";
}

}  // namespace
}  // namespace dlhook
