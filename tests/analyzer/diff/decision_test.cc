// The decision on two runs: how often --fail-above fails equal programs, which doubts prevent it, when it can't tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/causes.h"
#include "analyzer/diff/measured_run.h"
#include "analyzer/steps/compared_steps.h"

namespace dlhook::analyzer {
namespace {

// Disturbs the steps of a run: a load that comes and goes (autoregressive with the coefficient `memory`), never makes a
// step faster than undisturbed, and occasionally stops one.
struct Disturbance {
  std::string name;
  double memory;
  double spread;      // of the load, relative to a step
  int stopped_every;  // one step in this many; 0: none
  double stopped_for = 0.4;
};

const Disturbance kIndependent = {"independent", 0, 0.05, 0}, kSomeSteps = {"some steps long", 0.9, 0.05, 50},
                  kManySteps = {"many steps long", 0.97, 0.10, 50}, kHeavy = {"heavy", 0.8, 0.40, 20, 3},
                  kStops = {"stops", 0.5, 0.02, 10, 1};

MeasuredRun Run(std::mt19937& random, const Disturbance& disturbance, int steps, double slower = 0) {
  std::normal_distribution<double> normal;
  StepTrack track;
  int64_t now_ns = 0;
  double load = normal(random);
  for (int i = 0; i < steps; ++i) {
    load = disturbance.memory * load + std::sqrt(1 - disturbance.memory * disturbance.memory) * normal(random);
    const bool is_stopped =
        disturbance.stopped_every > 0 && random() % static_cast<unsigned>(disturbance.stopped_every) == 0;
    const double part = 1 + disturbance.spread * std::abs(load) + (is_stopped ? disturbance.stopped_for : 0);
    Step& step = track.steps.emplace_back();
    step.kind = StepKind::kTraining;
    step.start_ns = now_ns;
    now_ns = step.end_ns = now_ns + static_cast<int64_t>(1e6 * (1 + slower) * part);
  }
  return MeasureDurations(ChooseSteps(Judged({track}), StepKind::kTraining));
}

// The fraction of comparisons in which --fail-above `percent` fails.
double FailureRate(const Disturbance& disturbance, int steps, double slower, double percent) {
  constexpr int kTrials = 1000;
  std::mt19937 random(17);
  int failures = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const MeasuredRun base = Run(random, disturbance, steps), new_side = Run(random, disturbance, steps, slower);
    const Decision decision = Decide(base, new_side, Pace(), true);
    failures += decision.SlowerThan(percent) == Gate::kFails ? 1 : 0;
  }
  return static_cast<double>(failures) / kTrials;
}

// Runs of at least 60 steps that last at least six times as long as their disturbance.
TEST(DecisionTest, EqualProgramsFailNotMoreOftenThanIsSaid) {
  for (const auto& [disturbance, steps] : {std::pair{kIndependent, 20},
                                           {kIndependent, 60},
                                           {kSomeSteps, 60},
                                           {kSomeSteps, 300},
                                           {kManySteps, 300},
                                           {kHeavy, 60},
                                           {kStops, 60}}) {
    EXPECT_LE(FailureRate(disturbance, steps, 0, 0), kFalseAlarms) << disturbance.name << ", " << steps << " steps";
  }
}

TEST(DecisionTest, ProgramsThatAreSlowerByWhatIsAllowedFailAsSeldom) {
  EXPECT_LE(FailureRate(kIndependent, 60, 0.03, 3), kFalseAlarms);
  EXPECT_LE(FailureRate(kSomeSteps, 100, 0.03, 3), kFalseAlarms);
}

TEST(DecisionTest, ProgramsThatAreSlowerByMoreFail) {
  EXPECT_GE(FailureRate(kIndependent, 60, 0.10, 3), 0.9);
  EXPECT_GE(FailureRate(kSomeSteps, 300, 0.20, 3), 0.9);
}

// The same of several runs a side, which differ from each other by `between` (relative standard deviation).
double FailureRateOfSides(int runs, double between, double slower, double percent) {
  constexpr int kTrials = 1000, kSteps = 60;
  std::mt19937 random(17);
  std::normal_distribution<double> normal;
  const auto side = [&](double own_slower) {
    std::vector<MeasuredRun> measured;
    for (int run = 0; run < runs; ++run) {
      const double own = (1 + own_slower) * (1 + between * normal(random)) - 1;
      measured.push_back(Run(random, kSomeSteps, kSteps, own));
    }
    return MergeRuns(std::move(measured));
  };
  int failures = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const MeasuredRun base = side(0), new_side = side(slower);
    const Decision decision = Decide(base, new_side, Pace(), true);
    failures += decision.SlowerThan(percent) == Gate::kFails ? 1 : 0;
  }
  return static_cast<double>(failures) / kTrials;
}

TEST(DecisionTest, SeveralRunsASideFailNotMoreOftenAlthoughRunsDiffer) {
  for (int runs : {2, 3, 5, 8}) EXPECT_LE(FailureRateOfSides(runs, 0.05, 0, 0), 1.5 * kFalseAlarms) << runs << " runs";
  EXPECT_LE(FailureRateOfSides(3, 0.05, 0.03, 3), 1.5 * kFalseAlarms) << "as slow as is allowed";
  EXPECT_GE(FailureRateOfSides(5, 0.02, 0.15, 3), 0.9) << "slower by more";
  EXPECT_GT(FailureRateOfSides(1, 0.05, 0, 0), 0.2) << "what one run a side can't tell: the test has teeth";
}

MeasuredRun RunOf(const std::vector<double>& times_ms) {
  StepTrack track;
  int64_t now_ns = 0;
  for (const double ms : times_ms) {
    const auto ns = static_cast<int64_t>(1e6 * ms);
    track.steps.push_back({.start_ns = now_ns, .end_ns = now_ns + ns, .kind = StepKind::kTraining});
    now_ns += ns;
  }
  return MeasureDurations(ChooseSteps(Judged({track}), StepKind::kTraining));
}

// Steps of 1 ms, and of 1.9 ms, some of which are short and long in turns, as where batches are prepared ahead. Where every
// other step is as before, the other half may have been disturbed.
TEST(DecisionTest, StepsOfWhichThreeOfFourAreLongerAreSlower) {
  std::mt19937 random(17);
  const auto noise = [&] { return 0.05 * std::normal_distribution<double>()(random); };
  std::vector<double> base, most, half;
  for (int i = 0; i < 70; ++i) {
    base.push_back(1 + noise());
    const bool in_turns = i >= 28 && i < 56;
    most.push_back((in_turns ? (i % 2 == 0 ? 2.6 : 0.5) : 1.9) + noise());
    half.push_back((i % 2 == 0 ? 2.8 : 0.9) + noise());
  }
  const MeasuredRun before = RunOf(base), slower = RunOf(most), disturbed = RunOf(half);
  const auto decide = [&](const MeasuredRun& after) { return Decide(before, after, Pace(), true); };
  EXPECT_NE(decide(slower).low.finding, Speed::kSlower) << "the test has teeth";
  EXPECT_EQ(decide(slower).time.finding, Speed::kSlower);
  EXPECT_EQ(decide(disturbed).doubt, Doubt::kOnlySomeSteps);
  // Unless nobody disturbed them: workers deliver together.
  MeasuredRun idle = before, together = disturbed;
  idle.load.is_known = together.load.is_known = true;
  EXPECT_EQ(Decide(idle, together, Pace(), true).time.finding, Speed::kSlower);
}

TEST(DecisionTest, MergedRunsHaveTheValidationOfAll) {
  std::vector<MeasuredRun> runs(2, RunOf({1, 1, 1, 1}));
  for (MeasuredRun& run : runs) {
    run.steps.validations = 3;
    run.steps.validation_ns = 6'000'000;
  }
  const MeasuredRun merged = MergeRuns(std::move(runs));
  EXPECT_EQ(merged.steps.validations, 6);
  EXPECT_NEAR(merged.steps.ValidationNs(), 2e6, 1);  // 6 steps: the last of each run does not count
}

void WaitFor(double ns, MeasuredRun& run) {
  run.load.is_known = true;
  run.load.runnable = 6;
  run.load.processors = run.load.allowed = 2;
  run.load.waiting_ns = ns;
  run.load.waiting_samples = {BlockMeans(run.samples[0].size(), ns)};
}

// Steps of 1 ms and of 1.5 ms; how long one side waited for a processor is not known.
Decision DecideWithOneLoad(double base_waits_ns, double new_waits_ns) {
  std::mt19937 random(17);
  MeasuredRun base = Run(random, kIndependent, 60), new_side = Run(random, kIndependent, 60, 0.5);
  if (base_waits_ns >= 0) WaitFor(base_waits_ns, base);
  if (new_waits_ns >= 0) WaitFor(new_waits_ns, new_side);
  return Decide(base, new_side, Pace(), true);
}

TEST(DecisionTest, WaitingThatIsKnownOfOneSideOnlyRaisesDoubtsOnABusyMachine) {
  constexpr double kNotKnown = -1;
  EXPECT_EQ(DecideWithOneLoad(kNotKnown, kNotKnown).time.finding, Speed::kSlower);
  EXPECT_EQ(DecideWithOneLoad(kNotKnown, 0.6e6).doubt, Doubt::kWaiting);  // more than the difference
  EXPECT_EQ(DecideWithOneLoad(kNotKnown, 0.05e6).time.finding, Speed::kSlower);
  EXPECT_EQ(DecideWithOneLoad(0.3e6, kNotKnown).doubt, Doubt::kWaiting);  // the other may have waited for longer
  EXPECT_EQ(DecideWithOneLoad(0.05e6, kNotKnown).time.finding, Speed::kSlower);
}

// Steps of 1 ms of which other programs take half, which come and go, with so much processor time.
MeasuredRun Disturbed(std::mt19937& random, double cpu_ns, double waiting_ns) {
  MeasuredRun run = Run(random, kHeavy, 60);
  WaitFor(waiting_ns, run);
  for (double& block : run.samples[0]) block *= 1 + 2.0 * static_cast<double>(random() % 100) / 100;
  run.load.cpu_ns = run.load.first_thread_cpu_ns = cpu_ns;
  run.load.cpu_samples = {BlockMeans(run.samples[0].size(), cpu_ns)};
  run.time_ns = MeanOf(run.samples);
  return run;
}

TEST(DecisionTest, ProcessorTimeTellsWhereOthersDisturbTheTimes) {
  const auto decide = [](double cpu_ns, double waiting_ns) {
    std::mt19937 random(17);
    const MeasuredRun base = Disturbed(random, 0.5e6, 0.5e6);
    MeasuredRun after = Disturbed(random, cpu_ns, waiting_ns);
    after.time_ns = std::max(after.time_ns, 1.05 * base.time_ns);  // within the noise
    return Decide(base, after, Pace(), true);
  };
  const Decision slower = decide(0.8e6, 0.8e6);
  EXPECT_TRUE(slower.is_by_cpu);
  EXPECT_EQ(slower.time.finding, Speed::kSlower);
  EXPECT_EQ(slower.SlowerThan(50), Gate::kFails);
  EXPECT_EQ(slower.SlowerThan(70), Gate::kPasses);
  // What it waits more may cost as much: its threads wait actively for each other.
  EXPECT_FALSE(decide(0.8e6, 2.4e6).is_by_cpu);
  EXPECT_FALSE(decide(0.5e6, 0.5e6).is_by_cpu);
}

// Rows of products are not always samples.
TEST(DecisionTest, ABatchCountsIfWhatIsComputedGrowsWithIt) {
  MeasuredRun base = RunOf({1, 1, 1, 1}), after = RunOf({2, 2, 2, 2});
  for (const auto& [run, batch] : {std::pair(&base, 384), std::pair(&after, 4)}) {
    run->steps.batch = batch;
    for (Step& step : run->steps.tracks.front().steps) step.samples = batch;
  }
  const auto per = [&](double flops, double flops_of_new) {
    return Decide(base, after, Pace(), false, {flops, flops_of_new}).per;
  };
  EXPECT_EQ(per(384e6, 4.1e6), Per::kSample);
  EXPECT_EQ(per(384e6, 384e6), Per::kStep);
  EXPECT_EQ(per(0, 0), Per::kSample) << "not known";
}

// Only processor time changed: with its waits the side that computes more may even have been faster.
TEST(DecisionTest, ProcessorTimeTellsAlsoWhereTheTimesTellNothing) {
  std::mt19937 random(17);
  const MeasuredRun base = Disturbed(random, 0.5e6, 0.5e6);
  MeasuredRun after = Disturbed(random, 0.8e6, 0.5e6);
  after.time_ns = 0.97 * base.time_ns;
  const Decision slower = Decide(base, after, Pace(), true);
  EXPECT_TRUE(slower.is_by_cpu);
  EXPECT_EQ(slower.time.finding, Speed::kSlower);
}

// No noise bound tells them apart, but most steps of one side are longer by far, whatever it waited.
TEST(DecisionTest, StepsThatLieApartAreNoNoise) {
  const auto decide = [](double waiting_ns) {
    const MeasuredRun before = RunOf(std::vector<double>(40, 1.0));
    MeasuredRun after = RunOf(std::vector<double>(40, 30.0));
    for (size_t block = 0; block < after.samples[0].size(); ++block)
      after.samples[0][block] *= block % 4 == 0 ? 3.7 : 0.1;
    WaitFor(waiting_ns, after);
    return Decide(before, after, Pace(), true).time;
  };
  EXPECT_EQ(decide(10e6).finding, Speed::kSlower);
  EXPECT_EQ(decide(29e6).finding, Speed::kNoise);
  EXPECT_NEAR(*decide(10e6).noise_ns, 10e6, 1);  // of 29 ms 19 ms lie between them
}

// Not covered by what is promised: shows that the tests above can fail.
TEST(DecisionTest, ADisturbanceAsLongAsTheRunIsNotTold) { EXPECT_GT(FailureRate(kManySteps, 20, 0, 0), 0.03); }

}  // namespace
}  // namespace dlhook::analyzer
