// The sequential test on simulated times with known truth: false alarms, power, and its intervals.
#include "analyzer/whatif/contest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace dlhook::analyzer {
namespace contest_test {

constexpr size_t kVariations = 15;
constexpr size_t kRuns = 300;  // the budget of a simulated contest

// How times of equal runs scatter: by `spread`, and in a tenth of the rounds all of them by up to half more, as on a machine
// whose other programs come and go. `outliers`: a tenth of the runs are disturbed alone, too.
struct Machine {
  double spread = 0.03;
  bool outliers = false;
};

// Speeds of the variations relative to the program as it is.
Contest Play(const std::vector<double>& speeds, const Machine& machine, std::mt19937* random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Contest contest(speeds.size());
  size_t runs = 0;
  for (std::vector<size_t> open; runs < kRuns && !(open = contest.NextRound()).empty();) {
    const double busy = uniform(*random) < 0.1 ? 1 + 0.5 * uniform(*random) : 1;
    const auto time = [&](double ns) {
      const double alone = machine.outliers && uniform(*random) < 0.1 ? 1 + 0.5 * uniform(*random) : 1;
      return ns * busy * alone * std::exp(machine.spread * normal(*random));
    };
    const double base_ns = time(1e6);
    for (size_t i : open) contest.Add(i, base_ns, time(1e6 / speeds[i]));
    runs += open.size() + 1;
  }
  return contest;
}

// Of `trials` contests of equal programs, the part that tells any of them faster or slower.
double FalseAlarms(const Machine& machine, size_t variations, int trials) {
  std::mt19937 random(4711);
  int alarms = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Contest contest = Play(std::vector<double>(variations, 1.0), machine, &random);
    bool any = false;
    for (size_t i = 0; i < variations; ++i) {
      any |= contest.outcome(i) == Outcome::kFaster || contest.outcome(i) == Outcome::kSlower;
    }
    alarms += any ? 1 : 0;
  }
  return static_cast<double>(alarms) / trials;
}

TEST(ContestTest, EqualProgramsAreTold) {
  for (const Machine machine : {Machine{0.005}, Machine{0.03}, Machine{0.2}, Machine{0.03, true}}) {
    EXPECT_LE(FalseAlarms(machine, 1, 1000), kContestAlpha) << machine.spread << machine.outliers;
    EXPECT_LE(FalseAlarms(machine, kVariations, 300), kContestAlpha) << machine.spread << machine.outliers;
  }
}

// Among 14 others that change nothing.
TEST(ContestTest, AHalfMoreIsFoundAndFivePercentNeverMissedTheWrongWay) {
  for (const Machine machine : {Machine{0.01}, Machine{0.05}, Machine{0.05, true}}) {
    std::mt19937 random(4712);
    int slight = 0, wrong = 0;
    for (int trial = 0; trial < 100; ++trial) {
      std::vector<double> speeds(kVariations, 1.0);
      speeds[7] = 1.5;
      Contest contest = Play(speeds, machine, &random);
      EXPECT_EQ(contest.outcome(7), Outcome::kFaster) << "trial " << trial << ", spread " << machine.spread;
      speeds[7] = 1.05;
      contest = Play(speeds, machine, &random);
      wrong += contest.outcome(7) == Outcome::kSlower || contest.outcome(7) == Outcome::kNoGain ? 1 : 0;
      slight += contest.outcome(7) == Outcome::kFaster ? 1 : 0;
    }
    EXPECT_LE(wrong, 100 * kContestAlpha);
    if (machine.spread < 0.02) {
      EXPECT_EQ(slight, 100);
    }
  }
}

// What findings suggest comes first. With alpha in equal parts its interval was twice as wide after as many rounds.
TEST(ContestTest, TheFirstNeedsFewRounds) {
  Contest contest(13);
  for (const double ns : {15, 18, 12, 16}) {
    EXPECT_EQ(contest.outcome(0), Outcome::kNotDecided);
    contest.Add(0, 100, ns);
    contest.Add(12, 100, ns);
  }
  EXPECT_EQ(contest.outcome(0), Outcome::kFaster);
  EXPECT_EQ(contest.outcome(12), Outcome::kNotDecided);
}

TEST(ContestTest, IntervalsContainTheTruthInAllRounds) {
  std::mt19937 random(4713);
  std::normal_distribution<double> normal;
  constexpr int kTrials = 4000;
  int misses = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> ratios;
    bool missed = false;
    while (ratios.size() < 50) {
      ratios.push_back(std::log(1.2) + 0.05 * normal(random));
      const Speed speed = SpeedOf(ratios, kTryAlpha);
      missed |= speed.low && (*speed.low > 1.2 || *speed.high < 1.2);
    }
    misses += missed ? 1 : 0;
  }
  EXPECT_LE(misses, kTryAlpha * kTrials);
  EXPECT_GT(misses, 0);  // no wider than needed
}

// A program may need half a minute to start: what is faster is decided first, beside what was not tried yet.
TEST(ContestTest, RoundsAreForWhatPromisesMostAndForWhatIsNew) {
  using Round = std::vector<size_t>;
  Contest contest(6);
  EXPECT_EQ(contest.NextRound(), (Round{0, 1, 2}));
  contest.Add(0, 100, 110);
  contest.Add(1, 100, 71);
  contest.Add(2, 100, 80);
  EXPECT_EQ(contest.NextRound(), (Round{1, 2, 3}));
  contest.Add(3, 100, 75);
  EXPECT_EQ(contest.NextRound(), (Round{1, 3, 4}));
  contest.Add(4, 100, 102);
  EXPECT_EQ(contest.NextRound(), (Round{1, 3, 5}));
  contest.Add(5, 100, 101);
  EXPECT_EQ(contest.NextRound(), (Round{1, 2, 3}));
  contest.Fail(2);
  EXPECT_EQ(contest.NextRound(), (Round{1, 3, 5}));
  EXPECT_EQ(contest.outcome(2), Outcome::kFailed);
  contest.Add(4, 100, 20);
  EXPECT_EQ(contest.NextRound(), Round{4});  // much faster: nothing else until it is decided
  EXPECT_FALSE(contest.speed(0).low.has_value());
}

}  // namespace contest_test
}  // namespace dlhook::analyzer
