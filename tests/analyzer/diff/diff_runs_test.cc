// Diffs of two runs with a hand-made difference.
#include "analyzer/diff/diff_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "analyzer/work/step_work.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace diff_runs_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

RunSpec Spec(int layers, unsigned seed) {
  RunSpec spec;
  spec.layers = Layers(layers);
  spec.seed = seed;
  return spec;
}

std::string Notes(const RunsDiff& diff) { return absl::StrJoin(diff.tables.front().notes, "\n"); }

// From the row after the step's: the largest contribution.
std::string TopCell(const RunsDiff& diff, const std::string& column) { return Text(diff.tables.front(), 1, column); }

TEST(DiffRunsTest, ARunAgainstItselfIsEmpty) {
  const TrainingRun run(Spec(3, 1));
  const RunsDiff diff = Diff(run, run);
  for (const Table& table : diff.tables) EXPECT_TRUE(table.rows.empty()) << table.name;
  EXPECT_THAT(Sentence(diff), StartsWith("no difference: "));
  EXPECT_EQ(diff.decision.SlowerThan(0), Gate::kPasses);
}

TEST(DiffRunsTest, TwoNetworksAreSaidToBe) {
  RunSpec base = Spec(3, 1), other = Spec(3, 1);
  base.network = other.network = "ResNet";
  EXPECT_THAT(Sentence(Diff(base, other)), StartsWith("no difference: "));
  other.network = "GPT";
  EXPECT_THAT(Sentence(Diff(base, other)), StartsWith("different networks (BASE ResNet, NEW GPT): "));
}

TEST(DiffRunsTest, OperatorsOfAnImportedTraceAreNotComparedAsCalls) {
  RunSpec spec = Spec(3, 1);
  TrainingRun imported(spec);
  spec.layers[1].implementation = "gemm:jit";
  spec.layers[2].reorders = 4;
  const TrainingRun own(spec);
  EXPECT_THAT(Sentence(Diff(imported, own)), HasSubstr("NEW differs: reorder"));
  imported.model().processes[0].capabilities.push_back(
      {.name = "library-calls", .state = CapabilityState::kAbsent, .object = "", .reason = ""});
  EXPECT_THAT(Sentence(Diff(imported, own)), Not(HasSubstr("NEW differs")));
}

TEST(DiffRunsTest, AProgramThatFailedIsSaidTo) {
  const TrainingRun base(Spec(3, 1)), other(Spec(3, 1));
  AnalyzedRun failed = other.analyzed();
  failed.failure = "ended with code 1";
  using Side = std::vector<AnalyzedRun>;
  const auto diff = DiffRuns(Side{base.analyzed()}, Side{failed}, {});
  ASSERT_TRUE(diff.ok());
  EXPECT_THAT(Sentence(*diff), ContainsRegex("^NEW ended with code 1, behind 8. steady steps \\(BASE: 8.\\): no diff"));
  const auto both = DiffRuns(Side{failed}, Side{failed}, {});
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(Sentence(*both), StartsWith("both sides ended with code 1: no difference: "));
}

// Also a switch that explains a part only; what both have, not before larger products.
TEST(DiffRunsTest, FindingsOfOneSideComeFirst) {
  RunSpec spec = Spec(3, 1);
  const TrainingRun base(spec);
  for (LayerSpec& layer : spec.layers) layer.forward_ns *= 4;
  const TrainingRun slower(spec);  // by 900 us
  for (LayerSpec& layer : spec.layers) layer.channels = 64;
  const TrainingRun larger(spec);
  const auto sentence = [&](const TrainingRun& other, const char* rule, double gain_ns, double other_ns) {
    return Sentence(Diff({&base}, {&other}, {"layers"}, {{rule, "a reason", gain_ns, true, other_ns}}));
  };
  EXPECT_THAT(sentence(slower, "debug-switch", 3e5, 0), HasSubstr("NEW has a reason"));
  EXPECT_THAT(sentence(slower, "faster-form", 8e5, 1e5), HasSubstr("NEW loses more to a reason"));
  EXPECT_THAT(sentence(larger, "faster-form", 8e5, 1e5), HasSubstr("products and convolutions compute "));
}

// Steps that are left out of the mean are compared where one side has a reason for them: the slower one's.
TEST(DiffRunsTest, MuchLongerStepsCountWhereTheSlowerSideHasAReason) {
  RunSpec spec = Spec(3, 1);
  const TrainingRun base(spec);
  spec.interrupted_every = 10;
  const TrainingRun other(spec);
  double gain_ns = 6e5;
  const auto sentence = [&](const char* rule, bool is_of_new) {
    return Sentence(Diff({&base}, {&other}, {"layers"}, {{rule, "a reason", gain_ns, is_of_new}}));
  };
  EXPECT_THAT(sentence("longer-steps", true), HasSubstr("slower per training step, much longer ones included ("));
  EXPECT_THAT(sentence("recompilations", true), HasSubstr("much longer ones included (899 us -> 1.72 ms): NEW has a"));
  EXPECT_THAT(sentence("recompilations", false), Not(HasSubstr("included")));
  EXPECT_THAT(sentence("slow-lines", true), Not(HasSubstr("included")));
  gain_ns = 1e5;  // of 820 us
  EXPECT_THAT(sentence("recompilations", true), Not(HasSubstr("included")));
}

// Five passes of a network between two of another: one side's request is all of them, the other's one of them.
TEST(DiffRunsTest, ARequestThatHoldsSeveralIsComparedByParts) {
  RunSpec whole = Spec(1, 1), part = Spec(1, 2);
  whole.kind = part.kind = StepKind::kInference;
  whole.steps = 30;
  part.steps = 150;
  for (int i = 1; i < 5; ++i) whole.layers.push_back(whole.layers.front());
  const LayerSpec encoder = {.name = "encoder", .forward_ns = 50000, .backward_ns = 1000, .channels = 99};
  whole.layers.push_back(encoder);
  part.layers.push_back(encoder);
  const RunsDiff diff = Diff(whole, part);
  EXPECT_THAT(Sentence(diff), AllOf(StartsWith("NEW is 1"), HasSubstr(" % slower per request"),
                                    HasSubstr("; one of BASE does as much as 5 of NEW's)")));
  EXPECT_NEAR(diff.decision.time.change_ns(), 0.8 * 51000, 6000) << "the encoder is called five times as often";
  EXPECT_THAT(Sentence(Diff(part, whole)), HasSubstr("; one of NEW does as much as 5 of BASE's)"));
  part.steps = 30;
  EXPECT_THAT(Sentence(Diff(whole, part)), Not(HasSubstr("as much as"))) << "it does less in all";
}

// Products of other sizes, as where a batch is divided that is not known: by operations.
TEST(DiffRunsTest, ARequestThatComputesAsMuchAsSeveralIsComparedByParts) {
  RunSpec whole = Spec(1, 1), part = Spec(1, 2);
  whole.kind = part.kind = StepKind::kInference;
  whole.batch = part.batch = 0;
  whole.layers = {{.name = "conv", .channels = 80}};
  part.layers = {{.name = "conv", .channels = 16}};
  whole.steps = 30;
  part.steps = 150;
  EXPECT_THAT(Sentence(Diff(whole, part)), HasSubstr("; one of BASE does as much as 5 of NEW's)"));
  part.layers[0].channels = 40;
  EXPECT_THAT(Sentence(Diff(whole, part)), Not(HasSubstr("as much as")));
}

// Where most of the time is in steps that are left out, these come first.
TEST(DiffRunsTest, StepsThatAreLeftOutAreToldWhereTheyAreMostOfTheTime) {
  RunSpec spec = Spec(3, 1);
  const TrainingRun base(spec);
  for (const auto& [every, is_told] : {std::pair(12, false), {4, true}}) {
    spec.interrupted_every = every;
    const std::string sentence = Sentence(Diff(base, TrainingRun(spec)));
    const auto begin = HasSubstr("by all steps, much longer ones included, whatever made these longer, ");
    EXPECT_EQ(testing::Value(sentence, begin), is_told) << sentence;
  }
}

// A machine may have become busier, which nobody saw.
TEST(DiffRunsTest, MuchLongerTimesThatAreNotDecidedAreNoEqualOnes) {
  RunSpec base = Spec(3, 1), longer = Spec(3, 2);
  base.python_ns = longer.python_ns = 300000;
  longer.pace = 1.5;
  EXPECT_THAT(Sentence(Diff(base, longer)), StartsWith("undecided: "));
  longer.pace = 1.1;
  EXPECT_THAT(Sentence(Diff(base, longer)), StartsWith("no difference beyond noise: "));
  // Processor time is known, and the noise is larger than what is compared.
  base.threads = longer.threads = 2;
  longer.pace = 1.45;
  EXPECT_THAT(Sentence(Diff(base, longer)), StartsWith("undecided: "));
}

// No comparison of steps shows what a program does after them.
TEST(DiffRunsTest, TimeOutsideOfTheStepsIsTold) {
  const TrainingRun base(Spec(3, 1));
  TrainingRun other(Spec(3, 1)), similar(Spec(3, 1));
  const int64_t run_ns = base.analyzed().model->wall_ns();
  ProcessInfo& process = other.model().processes.front();
  const int64_t last_ns = process.end_ns;
  process.end_ns += run_ns / 2;
  EXPECT_THAT(Sentence(Diff(base, other)),
              AllOf(StartsWith("no difference: "), HasSubstr(". Outside of the steps: "), EndsWith(" after the last")));
  process.end_ns = last_ns;
  process.start_ns -= run_ns / 2;
  EXPECT_THAT(Sentence(Diff(base, other)), EndsWith(" before the first"));
  process.start_ns += run_ns / 2;
  process.end_ns += run_ns / 2;
  process.end = ProcessEnd::kVanished;
  EXPECT_THAT(Sentence(Diff(base, other)), Not(HasSubstr("Outside"))) << "it was killed";
  similar.model().processes.front().end_ns += run_ns / 10;
  EXPECT_THAT(Sentence(Diff(base, similar)), Not(HasSubstr("Outside")));
}

TEST(DiffRunsTest, RunsThatDifferByChanceAreNoise) {
  int beyond = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const RunsDiff diff = Diff(Spec(3, seed), Spec(3, 100 + seed));
    beyond += StepVerdict(diff) != "noise" || diff.tables.front().rows.size() > 1 ? 1 : 0;
  }
  EXPECT_LE(beyond, 2);
}

TEST(DiffRunsTest, TheLayerThatGotSlowerIsNamedFirstWithItsAlgorithm) {
  const RunSpec base = Spec(4, 1);
  RunSpec changed = Spec(4, 2);
  changed.layers[1].backward_ns *= 2;
  changed.layers[1].implementation = "gemm:jit";
  const RunsDiff diff = Diff(base, changed);
  EXPECT_THAT(
      Sentence(diff),
      AllOf(StartsWith("NEW is 17 % slower per training step (1.20 ms -> 1.40 ms, noise "),
            HasSubstr("): another implementation: convolution jit:avx512 -> gemm:jit in features.1 backward-data, +"),
            HasSubstr(". NEW differs: convolution jit:avx512 -> gemm:jit")));
  EXPECT_EQ(StepVerdict(diff), "slower");
  EXPECT_EQ(TopCell(diff, "what"), "features.1");
  EXPECT_EQ(TopCell(diff, "direction"), "backward-data");
  EXPECT_THAT(Notes(diff), Not(HasSubstr("same work")));
  EXPECT_EQ(diff.decision.SlowerThan(3), Gate::kFails);
  EXPECT_EQ(diff.decision.SlowerThan(20), Gate::kPasses);
}

TEST(DiffRunsTest, TheOtherWayRoundItIsFasterAndNoFailure) {
  RunSpec base = Spec(4, 1);
  base.layers[1].backward_ns *= 2;
  const RunsDiff diff = Diff(base, Spec(4, 2));
  EXPECT_THAT(Sentence(diff), AllOf(StartsWith("NEW is 14 % faster per training step"),
                                    HasSubstr("the same work takes less time in features.1 backward-data")));
  EXPECT_EQ(StepVerdict(diff), "faster");
  EXPECT_EQ(diff.decision.SlowerThan(0), Gate::kPasses);
}

TEST(DiffRunsTest, ChangesThatCancelAreToldAlthoughTheStepIsTheSame) {
  RunSpec base = Spec(4, 1), changed = Spec(4, 2);
  base.layers[0].forward_ns = 200000;
  changed.layers[3].forward_ns = 200000;
  const RunsDiff diff = Diff(base, changed);
  EXPECT_THAT(Sentence(diff), AllOf(StartsWith("no difference beyond noise"), HasSubstr("within the step: "),
                                    HasSubstr("features.0 forward -"), HasSubstr("features.3 forward +")));
}

TEST(DiffRunsTest, ReordersThatAppearAreTheReason) {
  RunSpec changed = Spec(2, 2);
  changed.layers[1].reorders = 90;
  const RunsDiff diff = Diff(Spec(2, 1), changed);
  EXPECT_EQ(TopCell(diff, "what"), "features.1");
  EXPECT_EQ(TopCell(diff, "why"), "its layout changes (reorders) went from 0 to 90 a step");
  EXPECT_THAT(Sentence(diff),
              HasSubstr("): memory formats: conversions of tensors 0 -> 90 a step in features.1 forward, +90.0 us"));
}

TEST(DiffRunsTest, AWiderLayerIsTheSameLayerWithAnotherSize) {
  RunSpec changed = Spec(3, 2);
  changed.layers[2].channels = 64;
  changed.layers[2].forward_ns *= 3;
  changed.layers[2].backward_ns *= 3;
  const RunsDiff diff = Diff(Spec(3, 1), changed);
  EXPECT_EQ(TopCell(diff, "what"), "features.2");
  EXPECT_THAT(Sentence(diff), HasSubstr("): more work per call: convolution oc 18 -> 64 in features.2 "));
  const Table& work = TableOf(diff, "work");
  const size_t row = RowWhere(work, {{"layer", "features.2"}, {"what", "convolution"}, {"direction", "forward"}});
  EXPECT_THAT(Text(work, row, "why"), StartsWith("problem: oc 18 -> 64; flops: "));
}

TEST(DiffRunsTest, LayersComeAndGo) {
  RunSpec more = Spec(3, 2);
  more.layers.insert(more.layers.begin() + 1, LayerSpec{.name = "features.1", .channels = 99, .type = "norm"});
  more.layers[2].name = "features.2";
  more.layers[3].name = "features.3";
  const RunsDiff added = Diff(Spec(3, 1), more);
  EXPECT_EQ(TopCell(added, "what"), "features.1");
  EXPECT_EQ(TopCell(added, "verdict"), "added");
  EXPECT_EQ(TopCell(added, "why"), "the layer is new");
  const Table& layers = TableOf(added, "layers");
  EXPECT_EQ(Text(layers, RowWhere(layers, {{"layer", "features.3"}}), "why").substr(0, 14), "was features.2");
  const RunsDiff removed = Diff(more, Spec(3, 1));
  EXPECT_EQ(TopCell(removed, "what"), "features.1");
  EXPECT_EQ(TopCell(removed, "verdict"), "removed");
  EXPECT_EQ(TopCell(removed, "why"), "the layer is gone");
}

TEST(DiffRunsTest, ASlowerMachineIsNoise) {
  RunSpec slow = Spec(4, 2);
  slow.pace = 1.5;
  const RunsDiff diff = Diff(Spec(4, 1), slow);
  EXPECT_EQ(StepVerdict(diff), "noise");
  EXPECT_THAT(Notes(diff), AllOf(HasSubstr("Both runs did the same work in the same way"),
                                 HasSubstr("a busier or slower machine does that")));
  EXPECT_EQ(diff.decision.SlowerThan(3), Gate::kPasses);
}

TEST(DiffRunsTest, ALayerThatGotSlowerShowsOnASlowerMachineToo) {
  RunSpec slow = Spec(4, 2);
  slow.pace = 1.2;
  slow.layers[2].forward_ns *= 5;
  const RunsDiff diff = Diff(Spec(4, 1), slow);
  EXPECT_EQ(TopCell(diff, "what"), "features.2");
  EXPECT_EQ(diff.tables.front().rows.size(), 2u);
}

TEST(DiffRunsTest, ASlowerLibraryIsNoSlowerMachine) {
  RunSpec slow = Spec(4, 2);
  slow.library_pace = 1.5;
  const RunsDiff diff = Diff(Spec(4, 1), slow);
  EXPECT_EQ(StepVerdict(diff), "slower");
  EXPECT_THAT(Notes(diff), Not(HasSubstr("busier")));
  EXPECT_EQ(diff.decision.SlowerThan(3), Gate::kFails);
}

TEST(DiffRunsTest, WithTooFewStepsNoiseIsNotKnown) {
  RunSpec base = Spec(2, 1), changed = Spec(2, 2);
  base.steps = changed.steps = 2;
  changed.layers[0].forward_ns *= 2;
  const RunsDiff diff = Diff(base, changed);
  EXPECT_EQ(StepVerdict(diff), "unknown");
  EXPECT_THAT(Sentence(diff),
              AllOf(HasSubstr("slower per training step"), HasSubstr("noise not known: too few steps")));
  EXPECT_EQ(diff.decision.SlowerThan(3), Gate::kCannotTell);
  EXPECT_EQ(diff.decision.SlowerThan(90), Gate::kPasses);
}

TEST(DiffRunsTest, WithoutStepsTheRunsAreCompared) {
  RunSpec none = Spec(2, 1);
  none.kind = StepKind::kValidation;
  const RunsDiff diff = Diff(none, Spec(2, 2));
  EXPECT_EQ(StepVerdict(diff), "unknown");
  EXPECT_EQ(Text(diff.tables.front(), 0, "what"), "run");
  EXPECT_THAT(Sentence(diff), HasSubstr("noise not known: no steps"));
  EXPECT_THAT(Notes(diff), HasSubstr("no steady steps were found"));
}

TEST(DiffRunsTest, StepsOfDifferentKindsAndBatchesAreSaidToBe) {
  RunSpec serving = Spec(2, 2);
  serving.kind = StepKind::kInference;
  EXPECT_THAT(Notes(Diff(Spec(2, 1), serving)), HasSubstr("no steps of the same kind"));
  RunSpec twice = Spec(2, 2);
  twice.batch = 16;
  for (LayerSpec& layer : twice.layers) layer.forward_ns *= 2;
  EXPECT_THAT(
      Sentence(Diff(Spec(2, 1), twice)),
      AllOf(StartsWith("NEW is 33 % faster per sample (74.9 us -> 50.0 us, noise "),
            testing::EndsWith("; 599 us -> 800 us per training step): batch 8 -> 16. NEW differs: batch 8 -> 16")));
}

TEST(DiffRunsTest, RowsOfAMixAreComparedByTheirMean) {
  RunSpec base = Spec(2, 1), other = Spec(2, 2);
  base.other_batch = 16;
  other.other_batch = 64;
  EXPECT_THAT(Sentence(Diff(base, other)), HasSubstr("NEW differs: samples on average 12 -> 3"));
  other.other_batch = 18;
  EXPECT_THAT(Sentence(Diff(base, other)), Not(HasSubstr("on average")));
}

// An encoder's rows come first where it is computed; where it is not, its decoder's.
TEST(DiffRunsTest, RowsOfOtherLayersAreNoBatch) {
  RunSpec base = Spec(1, 1), other = Spec(3, 2);
  other.batch = 24;
  EXPECT_THAT(Sentence(Diff(base, other)), HasSubstr(" per sample"));
  other.batch_is_rows = true;
  const auto is_of_steps = AllOf(HasSubstr(" slower per training step"), Not(HasSubstr("batch")));
  EXPECT_THAT(Sentence(Diff(base, other)), is_of_steps);
  const TrainingRun one(base), two(base), three(other), four(other);
  EXPECT_THAT(Sentence(Diff({&one, &two}, {&three, &four})), is_of_steps);
}

// One size of everything that is computed is so many times the other side's: these are rows, whatever a step is.
TEST(DiffRunsTest, RowsAreTakenFromWhatAllProductsHaveInCommon) {
  RunSpec many = Spec(2, 1), one = Spec(2, 2);
  many.kind = one.kind = StepKind::kUnknown;
  many.batch = one.batch = 0;
  for (int layer = 0; layer < 2; ++layer) {
    many.layers[layer].channels = 64;
    one.layers[layer].channels = 1;
    one.layers[layer].forward_ns /= 10;
    one.layers[layer].backward_ns /= 10;
  }
  EXPECT_THAT(Sentence(Diff(many, one)),
              AllOf(ContainsRegex("^NEW is 5.. % slower per sample"), HasSubstr(": batch 64 -> 1")));
  RunSpec further = one;
  further.layers.push_back({.name = "head", .forward_ns = 1000, .backward_ns = 1000, .channels = 1});
  EXPECT_THAT(Sentence(Diff(many, further)), HasSubstr(" % faster per step")) << "something else is computed, too";
  one.layers[1].channels = 64;  // one layer became smaller
  EXPECT_THAT(Sentence(Diff(many, one)), HasSubstr(" % faster per step"));
}

// A run that had a processor earlier may need more of it.
TEST(DiffRunsTest, RunsWithoutStepsAreUndecidedWhereOnlyTheirWaitsBecameShorter) {
  RunSpec base = Spec(2, 1), other = Spec(2, 2);
  base.kind = other.kind = StepKind::kValidation;
  base.threads = other.threads = 1;
  base.waiting_ns = 900'000;
  other.python_ns = 300'000;
  EXPECT_THAT(Sentence(Diff(base, other)),
              AllOf(HasSubstr("ndecided: "), HasSubstr("; without its waits for processors ")));
  other.waiting_ns = 900'000;
  EXPECT_THAT(Sentence(Diff(base, other)), HasSubstr(" % slower"));
}

// A layer that one side computes in each fourth step only: a call there may have been interrupted.
TEST(DiffRunsTest, CallsThatOneSideHardlyMakesTakeNoOtherTime) {
  RunSpec rare = Spec(2, 1), often = Spec(2, 2);
  rare.layers[1].every = 4;
  often.layers[1].forward_ns *= 8;
  EXPECT_THAT(Sentence(Diff(rare, often)),
              AllOf(HasSubstr(": more calls: "), Not(HasSubstr("the same work takes longer"))));
}

// Nothing is known to have been done in the same way where nothing was seen.
TEST(DiffRunsTest, RunsOfWhichNothingIsSeenDidNoSameWork) {
  RunSpec base = Spec(1, 1), longer = Spec(1, 2);
  base.kind = longer.kind = StepKind::kValidation;
  base.python_ns = 100'000;
  longer.python_ns = 900'000;
  EXPECT_THAT(Notes(Diff(base, longer)), Not(HasSubstr("did the same work")));
}

TEST(DiffRunsTest, InterruptedStepsAreToldApart) {
  RunSpec disturbed = Spec(2, 2);
  disturbed.interrupted_every = 15;
  const RunsDiff diff = Diff(Spec(2, 1), disturbed);
  EXPECT_EQ(StepVerdict(diff), "noise");
  EXPECT_THAT(Notes(diff),
              AllOf(HasSubstr("6 more were interrupted"), HasSubstr("Interrupted steps took 0.0 % of BASE's")));
}

int64_t Cause(const RunsDiff& diff, const std::string& name) {
  const Table& causes = TableOf(diff, "causes");
  const std::vector<size_t> rows = RowsWhere(causes, {{"cause", name}});
  return rows.empty() ? 0 : Integer(causes, rows.front(), "change");
}

TEST(DiffRunsTest, WhatTheMachineDoesIsNoCauseOfTheProgram) {
  RunSpec base = Spec(4, 1), busy = Spec(4, 2);
  base.threads = busy.threads = 4;
  busy.waiting_ns = 400000;
  EXPECT_NEAR(static_cast<double>(Cause(Diff(base, busy), "busy machine")), 400000, 40000);
  // On an equally busy machine who needs three times the processor time waits three times as long.
  RunSpec more = busy;
  for (LayerSpec& layer : more.layers) layer.forward_ns *= 3, layer.backward_ns *= 3;
  more.waiting_ns *= 3;
  EXPECT_NEAR(static_cast<double>(Cause(Diff(busy, more), "busy machine")), 0, 40000);
  busy.wanting = 6;  // and no other program
  const RunsDiff own = Diff(base, busy);
  EXPECT_EQ(Cause(own, "busy machine"), 0);
  EXPECT_NEAR(static_cast<double>(Cause(own, "threads")), 400000, 40000);
  RunSpec slow = Spec(4, 2);
  slow.pace = 1.5;
  const RunsDiff diff = Diff(Spec(4, 1), slow);
  EXPECT_GT(Cause(diff, "speed of the machine"), 9 * std::abs(Cause(diff, "rate")));
}

TEST(DiffRunsTest, ChangesOfOneCallAreDividedByWhatChanged) {
  RunSpec more = Spec(2, 2);
  more.layers[1].channels = 34;  // twice as many operations, three times as long
  more.layers[1].forward_ns *= 3;
  const RunsDiff diff = Diff(Spec(2, 1), more);
  EXPECT_NEAR(static_cast<double>(Cause(diff, "work per call") + Cause(diff, "rate")), 200000, 30000);
  EXPECT_GT(Cause(diff, "work per call"), Cause(diff, "rate"));
  EXPECT_GT(Cause(diff, "rate"), 0);
}

TEST(DiffRunsTest, SeveralRunsASideAreOneMean) {
  const TrainingRun first(Spec(3, 1)), second(Spec(3, 2)), third(Spec(3, 3));
  RunSpec slow = Spec(3, 4);
  slow.layers[1].forward_ns *= 2;
  const TrainingRun slow_first(slow);
  slow.seed = 5;
  slow.steps = 60;  // a run counts as much as another however many steps it has
  const TrainingRun slow_second(slow);
  const RunsDiff diff = Diff({&first, &second, &third}, {&slow_first, &slow_second});
  EXPECT_EQ(StepVerdict(diff), "slower");
  EXPECT_THAT(Sentence(diff), HasSubstr("the same work takes longer in features.1 forward"));
  EXPECT_NEAR(diff.decision.time.change_ns(), 100000, 5000);
  EXPECT_NEAR(static_cast<double>(Sum(TableOf(diff, "work"), "change")), diff.decision.time.change_ns(), 20);
  EXPECT_EQ(Sum(TableOf(diff, "causes"), "change"), std::llround(diff.decision.whole.change_ns()));
  EXPECT_THAT(Notes(diff), AllOf(HasSubstr("between runs (3 and 2) and within them"), HasSubstr("NEW (2 runs: ")));
  EXPECT_THAT(Notes(Diff(first, second)), HasSubstr("How much one run differs from the next is unknown"));
}

TEST(DiffRunsTest, EveryComparableTableIsMadeOfEveryRunAndItsColumnsAreExplained) {
  std::vector<std::string> names;
  for (const TableKind& kind : ComparableTables()) names.emplace_back(kind.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"work", "layers", "accounting", "phases", "ops", "algorithms", "layout",
                                            "gemm", "copies", "kernels", "collectives"}));
  EXPECT_THAT(names, Not(testing::Contains("summary")));
  RunSpec changed = Spec(2, 2);
  changed.layers[0].implementation = "gemm:jit";
  changed.layers[0].forward_ns *= 2;
  changed.layers[1].reorders = 3;
  for (const Table& table : Diff(Spec(2, 1), changed, names).tables) {
    for (const Column& column : table.columns) EXPECT_NE(column.explanation, "") << table.name << " " << column.name;
    if (table.name == "algorithms") {
      const size_t row = RowWhere(table, {{"verdict", "slower"}});
      EXPECT_EQ(Text(table, row, "why"), "chosen: jit:avx512 -> gemm:jit");
    }
    if (table.name == "layout") {
      ASSERT_EQ(table.rows.size(), 1u);
      EXPECT_EQ(Text(table, 0, "verdict"), "added");
      EXPECT_EQ(Real(table, 0, "calls_new"), 3);
    }
  }
}

TEST(DiffRunsTest, RowsOfWorkAddUpToTheStep) {
  RunSpec changed = Spec(3, 2);
  changed.layers[2].forward_ns *= 2;
  const RunsDiff diff = Diff(Spec(3, 1), changed);
  EXPECT_NEAR(static_cast<double>(Sum(TableOf(diff, "work"), "change")), diff.decision.time.change_ns(), 20);
  EXPECT_NEAR(static_cast<double>(Sum(TableOf(diff, "layers"), "change")), diff.decision.time.change_ns(), 20);
}

TEST(DiffRunsTest, LayersAndKernelsAreComparedByGpuTimeWhereBothRunsHaveIt) {
  RunSpec base, new_side;
  base.layers = new_side.layers = Layers(3);
  for (LayerSpec& layer : base.layers) layer.gpu_ns = 50000;
  new_side.layers = base.layers;
  new_side.layers[1].gpu_ns = 60000;
  const RunsDiff diff = Diff(base, new_side, {"layers", "kernels"});
  const Table& layers = TableOf(diff, "layers");
  const size_t slower = RowWhere(layers, {{"verdict", "slower"}});
  EXPECT_EQ(Text(layers, slower, "layer"), "features.1");
  EXPECT_NEAR(static_cast<double>(Integer(layers, slower, "change")), 2 * 10000 * 1.005, 10);  // forward and backward
  const Table& kernels = TableOf(diff, "kernels");
  EXPECT_EQ(RowsWhere(kernels, {{"verdict", "slower"}, {"kernel", "kernel of features.1"}}).size(),
            2u);  // in both directions
  EXPECT_EQ(RowsWhere(kernels, {{"verdict", "slower"}}).size(), 2u);
  EXPECT_EQ(StepVerdict(diff), StepVerdict(Diff(base, base))) << "the step is the host's";
}

TEST(DiffRunsTest, ARunWithoutGpuTimesIsComparedByTheHosts) {
  RunSpec base, new_side;
  base.layers = new_side.layers = Layers(3);
  new_side.layers[1].gpu_ns = 60000;
  new_side.seed = 2;
  for (const RunsDiff& diff : {Diff(base, new_side, {"layers", "kernels", "ops", "copies"}),
                               Diff(new_side, base, {"layers", "kernels", "ops", "copies"})}) {
    for (size_t row = 0; row < TableOf(diff, "layers").rows.size(); ++row) {
      EXPECT_THAT(Text(TableOf(diff, "layers"), row, "verdict"), testing::AnyOf("noise", "equal"));
    }
    EXPECT_TRUE(TableOf(diff, "kernels").rows.empty());  // no launch was seen
  }
}

}  // namespace diff_runs_test
}  // namespace dlhook::analyzer
