// The noise bound: quantiles against published tables, false alarms and power on samples with known truth.
#include "analyzer/work/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace dlhook::analyzer {
namespace noise_test {

// Times of steps: autoregressive with the coefficient `memory` (another program comes and goes), with a standard
// deviation of `spread` and occasional outliers.
class Steps {
 public:
  Steps(unsigned seed, double memory, double spread) : random_(seed), memory_(memory), spread_(spread) {}

  BlockMeans Run(double mean, size_t steps) {
    std::normal_distribution<double> normal;
    std::vector<double> times;
    double drift = normal(random_);
    for (size_t i = 0; i < steps; ++i) {
      drift = memory_ * drift + std::sqrt(1 - memory_ * memory_) * normal(random_);
      const bool is_long = random_() % 50 == 0;
      times.push_back(mean * (1 + spread_ * drift) * (is_long ? 1.3 : 1));
    }
    BlockMeans blocks(kBlocks);
    for (size_t i = 0; i < steps; ++i) blocks[i * kBlocks / steps] += times[i] / (static_cast<double>(steps) / kBlocks);
    return blocks;
  }

 private:
  std::mt19937 random_;
  const double memory_, spread_;
};

// How often a change of `change` is reported as beyond noise.
double AlarmRate(double change, double memory, double spread, size_t steps) {
  constexpr int kTrials = 1000;
  Steps source(7, memory, spread);
  int alarms = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const BlockMeans base = source.Run(1, steps), new_side = source.Run(1 + change, steps);
    alarms += std::abs(MeanOf(new_side) - MeanOf(base)) > *NoiseBound(Samples{base}, Samples{new_side}) ? 1 : 0;
  }
  return static_cast<double>(alarms) / kTrials;
}

TEST(StudentQuantileTest, AgreesWithPrintedTables) {
  EXPECT_NEAR(StudentQuantile(0.05, 1), 12.706, 0.001);
  EXPECT_NEAR(StudentQuantile(0.01, 2), 9.925, 0.001);
  EXPECT_NEAR(StudentQuantile(0.05, 3), 3.182, 0.005);
  EXPECT_NEAR(StudentQuantile(0.01, 10), 3.169, 0.002);
  EXPECT_NEAR(StudentQuantile(0.001, 10), 4.587, 0.003);
  EXPECT_NEAR(StudentQuantile(0.05, 28), 2.048, 0.001);
  EXPECT_NEAR(StudentQuantile(0.01, 1000), 2.581, 0.001);
}

TEST(NoiseBoundTest, EqualRunsAreRarelyCalledDifferent) {
  EXPECT_LE(AlarmRate(0, 0, 0.05, 150), 0.02);
  EXPECT_LE(AlarmRate(0, 0.9, 0.05, 150), 0.03) << "noise that lasts for some steps";
  EXPECT_LE(AlarmRate(0, 0.97, 0.10, 450), 0.03) << "noise that lasts for many";
  EXPECT_LE(AlarmRate(0, 0, 0.05, 15), 0.02) << "a step a block";
}

// Without blocks and their correlation there would be many false alarms: shows that the test above can fail.
TEST(NoiseBoundTest, StepsAloneWouldPromiseTooMuch) {
  Steps source(7, 0.97, 0.10);
  int alarms = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const BlockMeans base = source.Run(1, kBlocks), new_side = source.Run(1, kBlocks);
    double squares = 0;
    for (const BlockMeans* side : {&base, &new_side}) {
      for (double step : *side) squares += (step - MeanOf(*side)) * (step - MeanOf(*side));
    }
    const double error = std::sqrt(squares / (kBlocks - 1) / kBlocks);
    alarms += std::abs(MeanOf(new_side) - MeanOf(base)) > 2.8 * error ? 1 : 0;
  }
  EXPECT_GT(alarms, 60);
}

TEST(NoiseBoundTest, ChangesOfSomePercentAreFound) {
  EXPECT_GE(AlarmRate(0.05, 0, 0.05, 150), 0.95);
  EXPECT_GE(AlarmRate(-0.05, 0, 0.05, 150), 0.95);
  EXPECT_GE(AlarmRate(0.20, 0.9, 0.05, 150), 0.90);
}

BlockMeans Line(double first, double last, double spread = 0) {
  BlockMeans blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    const double at = static_cast<double>(i) / (kBlocks - 1);
    blocks.push_back(first + (last - first) * at + (i % 2 == 0 ? spread : -spread));
  }
  return blocks;
}

TEST(NoiseBoundTest, StepsThatGrowAreNoNoise) {
  const BlockMeans base = Line(1, 1, 0.05), growing = Line(1, 30, 1);
  EXPECT_LT(*NoiseBound(Samples{base}, Samples{growing}), 2);
  const auto trend = TrendOf(growing);
  ASSERT_TRUE(trend);
  EXPECT_TRUE(trend->IsGrowth());
  EXPECT_NEAR(trend->first, 1, 0.5);
  EXPECT_NEAR(trend->last, 30, 0.5);
}

TEST(TrendTest, IsNoneOfStepsThatScatterJumpOrGrowALittle) {
  EXPECT_FALSE(TrendOf(Line(1, 1, 0.5)));
  EXPECT_FALSE(TrendOf(Line(1, 1.3)));
  EXPECT_FALSE(TrendOf({1, 2, 3, 4, 5}));
  BlockMeans jump(kBlocks, 1.0);
  for (size_t i = kBlocks / 2; i < kBlocks; ++i) jump[i] = 3;
  EXPECT_FALSE(TrendOf(jump));
  EXPECT_FALSE(TrendOf(Line(3, 1))->IsGrowth());
}

// Other programs' load comes and goes, and rarely looks like a trend.
TEST(TrendTest, IsRareInNoise) {
  Steps source(11, 0.9, 0.3);
  int trends = 0;
  for (int trial = 0; trial < 1000; ++trial) trends += TrendOf(source.Run(1, 100)) ? 1 : 0;
  EXPECT_LE(trends, 5);
}

TEST(NoiseBoundTest, WhatHasNoSpreadHasNoBound) {
  const BlockMeans two = {1, 2}, three = {1, 2, 3}, same = {5, 5, 5};
  const auto bound = [](const BlockMeans& base, const BlockMeans& new_side) {
    return NoiseBound(Samples{base}, Samples{new_side});
  };
  EXPECT_FALSE(bound(two, three).has_value());
  EXPECT_FALSE(bound(three, two).has_value());
  EXPECT_FALSE(NoiseBound(Samples(), Samples()).has_value());
  EXPECT_TRUE(bound(three, three).has_value());
  EXPECT_EQ(bound(same, same), 0);
}

TEST(NoiseBoundTest, ManyTestsAskForMore) {
  const Samples blocks = {{1, 2, 3, 2, 1, 2, 3, 2, 1, 2}};
  const double one = *NoiseBound(blocks, blocks), many = *NoiseBound(blocks, blocks, 100);
  EXPECT_GT(many, 1.3 * one);
  EXPECT_LT(many, 3 * one);
}

// Runs that differ from each other as a whole, each with little spread inside.
Samples Side(std::mt19937& random, double mean, int runs, double between, double within) {
  std::normal_distribution<double> normal;
  Samples side;
  for (int run = 0; run < runs; ++run) {
    const double own = mean * (1 + between * normal(random));
    for (BlockMeans& blocks = side.emplace_back(); blocks.size() < kBlocks;)
      blocks.push_back(own * (1 + within * normal(random)));
  }
  return side;
}

double AlarmRateOfSides(double change, int base_runs, int new_runs, double between) {
  constexpr int kTrials = 2000;
  std::mt19937 random(7);
  int alarms = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Samples base = Side(random, 1, base_runs, between, 0.01),
                  new_side = Side(random, 1 + change, new_runs, between, 0.01);
    const double bound = *NoiseBound(base, new_side);
    alarms += std::abs(MeanOf(new_side) - MeanOf(base)) > bound ? 1 : 0;
  }
  return static_cast<double>(alarms) / kTrials;
}

TEST(NoiseBoundTest, SeveralRunsASideCountWhatVariesBetweenThem) {
  for (int runs : {2, 3, 5, 10}) EXPECT_LE(AlarmRateOfSides(0, runs, runs, 0.05), 1.5 * kAlpha) << runs << " runs";
  EXPECT_LE(AlarmRateOfSides(0, 3, 5, 0.05), 1.5 * kAlpha);
  EXPECT_LE(AlarmRateOfSides(0, 5, 1, 0.05), 1.5 * kAlpha) << "a single run varies as those of the other side do";
  EXPECT_LE(AlarmRateOfSides(0, 3, 3, 0), 1.5 * kAlpha) << "nothing varies between runs";
  EXPECT_GE(AlarmRateOfSides(0.20, 3, 3, 0.01), 0.99);
  EXPECT_GT(AlarmRateOfSides(0, 1, 1, 0.05), 0.5) << "what one run a side can't tell: the test has teeth";
}

}  // namespace noise_test
}  // namespace dlhook::analyzer
