// Rule longer-steps: steps that the mean leaves out, and what happens in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/findings/findings_table.h"
#include "tests/analyzer/builders/gpu_program.h"
#include "tests/analyzer/diff/training_run.h"

namespace dlhook::analyzer {
namespace longer_steps_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

struct Spec {
  std::vector<int> longer;  // numbers of 41 steps, the last of which does not count
  int64_t longer_ns = 60 * kMs;
  std::vector<int> also_longer;  // 30 ms
  bool starts_process = false;
  bool has_lines = false;      // an operation at the beginning of each step, and one at its end
  bool is_load_known = false;  // nothing waits
};

// Steps of 10 ms.
std::vector<std::string> Found(const Spec& spec) {
  GpuProgram program;
  std::vector<int64_t> starts = {0};
  std::vector<int64_t> children;
  ModelBuilder& builder = program.builder();
  const StackIndex first = builder.AddStack({{"train.py", "<module>", 7}}),
                   last = builder.AddStack({{"train.py", "<module>", 9}});
  for (int step = 0; step < 41; ++step) {
    const bool is_longer = std::find(spec.longer.begin(), spec.longer.end(), step) != spec.longer.end();
    if (is_longer) children.push_back(starts.back() + kMs);
    const bool is_also = std::find(spec.also_longer.begin(), spec.also_longer.end(), step) != spec.also_longer.end();
    starts.push_back(starts.back() + (is_longer ? spec.longer_ns : (is_also ? 30 : 10) * kMs));
    const int64_t start_ns = starts[starts.size() - 2], end_ns = starts.back();
    if (spec.has_lines) {
      builder.Scope("aten::linear", ScopeKind::kFrameworkOp, start_ns, kMs, 0, -1, first);
      builder.Scope("aten::mean", ScopeKind::kFrameworkOp, end_ns - kMs, kMs, 0, -1, last);
    }
    if (!spec.is_load_known) continue;
    LoadSample sample;
    sample.time_ns = sample.cpu_ns = sample.first_thread_cpu_ns = end_ns;
    sample.threads = sample.runnable = 1;
    sample.processors = 2;
    builder.model().loads.push_back(sample);
  }
  program.Steps(starts);
  TraceModel& model = program.builder().model();
  model.processes.front().pid = 7;
  for (size_t i = 0; spec.starts_process && i < children.size(); ++i) {
    model.processes.push_back({.pid = 8 + static_cast<uint32_t>(i), .parent_pid = 7, .start_ns = children[i]});
  }
  program.Build(starts.back());
  const Table table = program.Make(ReportTables().front());
  std::vector<std::string> found;
  for (const size_t row : RowsWhere(table, {{"rule", "longer-steps"}})) {
    found.push_back(Text(table, row, "finding") + " " + Text(table, row, "advice"));
    // 4 x 50 of 600 ms, in 40 steps.
    EXPECT_NEAR(Real(table, row, "gain_percent"), 33.3, 0.1);
    EXPECT_NEAR(Integer(table, row, "gain"), 5 * kMs, 1);
  }
  return found;
}

TEST(LongerSteps, ComeRegularly) {
  EXPECT_THAT(
      Found({.longer = {5, 15, 25, 35}}),
      ElementsAre(HasSubstr("4 of 40 training steps (each 10th) take 60.0 ms on average, the others 10.0 ms.")));
}

// Other programs may have had the processor, if nobody looked.
TEST(LongerSteps, AtNoRegularDistanceNeedAnIdleMachine) {
  EXPECT_THAT(Found({.longer = {5, 9, 25, 33}, .has_lines = true, .is_load_known = true}),
              ElementsAre(HasSubstr("in each of them the program spends 58.0 ms at train.py:7 to 9")));
  EXPECT_THAT(Found({.longer = {5, 9, 25, 33}, .has_lines = true}), IsEmpty());
}

TEST(LongerSteps, AreRegularByChanceWhereManyAreNot) {
  EXPECT_THAT(Found({.longer = {5, 15, 25, 35}, .longer_ns = 600 * kMs, .also_longer = {2, 8, 11, 19, 28}}), IsEmpty());
}

TEST(LongerSteps, StartProcesses) {
  EXPECT_THAT(
      Found({.longer = {5, 9, 25, 33}, .starts_process = true}),
      ElementsAre(HasSubstr("4 of 40 training steps take 60.0 ms on average, the others 10.0 ms: in each of them "
                            "the program starts 1 process. Start these processes once")));
}

TEST(LongerSteps, AreInterruptionsOrShort) {
  EXPECT_THAT(Found({.longer = {5, 9, 25, 33}}), IsEmpty());
  EXPECT_THAT(Found({.longer = {5, 15, 25, 35}, .longer_ns = 20 * kMs}), IsEmpty());
}

// Regularly, but for no reason that is seen, and no longer than others have a processor.
TEST(LongerSteps, AreNotOthersTimeSlices) {
  EXPECT_THAT(Found({.longer = {5, 15, 25, 35}, .longer_ns = 25 * kMs}), IsEmpty());
}

// Each fourth step waits 30 ms for four workers; or for three: then it is not one of them that delivers with the others; or
// processes start in it.
TEST(LongerSteps, AreNotThoseThatWaitForWorkersThatDeliverTogether) {
  for (const auto& [workers, starts] : {std::pair(4u, false), {3u, false}, {4u, true}}) {
    TraceModel model;
    model.processes = {{.pid = 7, .end_ns = 1000 * kMs}};
    for (uint32_t pid = 8; pid < 8 + workers; ++pid)
      model.processes.push_back({.pid = pid, .parent_pid = 7, .end_ns = 1000 * kMs});
    StepTrack track;
    int64_t at_ns = 0;
    for (int step = 0; step < 45; ++step) {
      const int64_t input_ms = step % 4 == 3 && step < 40 ? 30 : 0;
      track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + (2 + input_ms) * kMs, .kind = StepKind::kTraining});
      track.steps.back().phases = {{at_ns, at_ns + input_ms * kMs, PhaseKind::kInput}};
      if (starts && input_ms > 0) model.processes.push_back({.pid = 99, .parent_pid = 7, .start_ns = at_ns + kMs});
      at_ns = track.steps.back().end_ns;
    }
    std::vector<StepTrack> tracks = Judged({track});
    EXPECT_EQ(ChooseSteps(tracks, StepKind::kTraining).interrupted, 10);
    CountWaitsForWorkers(model, tracks[0]);
    EXPECT_EQ(ChooseSteps(tracks, StepKind::kTraining).interrupted, workers == 4 && !starts ? 0 : 10);
  }
}

// After each training step, which takes 900 us, so many validation steps of 300 us.
std::vector<Finding> OfValidation(int validations, int batch = 0, bool makes_data = false) {
  RunSpec spec;
  spec.makes_data = makes_data;
  spec.batch_of_validation = batch;
  spec.layers = Layers(3);
  spec.steps = 20;
  spec.validations = validations;
  TrainingRun run(spec);
  std::vector<Finding> found;
  for (RuleFinding& finding : FindAll(StepFacts(run.model(), run.analyzed().options))) {
    if (finding.rule == "longer-steps") found.push_back(std::move(finding.finding));
  }
  return found;
}

// The batch once more, or a single row of something else.
TEST(LongerSteps, ArePassesOfTheSameBatchBehindEachStep) {
  const std::vector<Finding> found = OfValidation(1, 8);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].sentence, HasSubstr("Behind 20 of 20 training steps the model runs once without"));
  EXPECT_NEAR(found[0].gain_ns, 0.3e6, 0.02e6);
  EXPECT_THAT(OfValidation(1, 1), IsEmpty());
  EXPECT_THAT(OfValidation(1, 8, /*makes_data=*/true), IsEmpty());
  EXPECT_THAT(OfValidation(2, 8), IsEmpty());
}

// A validation step that holds 5 ms of something else, and 1 ms of its own pass.
TEST(LongerSteps, ValidationIsItsInputAndPasses) {
  StepTrack track;
  for (int64_t ms = 0; ms < 60; ms += 10) {
    track.steps.push_back({.start_ns = ms * kMs, .end_ns = (ms + 4) * kMs, .kind = StepKind::kTraining});
    track.steps.push_back({.start_ns = (ms + 4) * kMs, .end_ns = (ms + 10) * kMs, .kind = StepKind::kValidation});
    track.steps.back().phases = {{(ms + 4) * kMs, (ms + 9) * kMs, PhaseKind::kUnknown},
                                 {(ms + 9) * kMs, (ms + 10) * kMs, PhaseKind::kInference}};
  }
  const ComparedSteps steps = ChooseSteps(Judged({track}), StepKind::kTraining);
  EXPECT_EQ(steps.validations, 5);
  EXPECT_EQ(steps.validation_ns, 5 * kMs);
}

TEST(LongerSteps, AreNotValidationUnlessItTakesLonger) {
  EXPECT_THAT(OfValidation(2), IsEmpty());
  const std::vector<Finding> found = OfValidation(6);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "passes without gradients");
  EXPECT_THAT(found[0].sentence, HasSubstr("a rollout, or validation"));
  EXPECT_THAT(found[0].sentence, HasSubstr("it runs 19 times between 20 of them, 114 steps in all"));
  EXPECT_NEAR(found[0].gain_ns, 1.8e6, 0.1e6);
}

// In each step a pass of the network with gradients, and so many without.
std::vector<Finding> Within(int passes) {
  ModelBuilder builder;
  Attribution attribution;
  attribution.layers.emplace_back().name = "net";
  StepTrack track;
  const StackIndex stack = builder.AddStack({{"train.py", "<module>", 7}});
  for (int64_t at_ns = 0; at_ns < 10 * kMs; at_ns += kMs) {
    track.steps.push_back({.start_ns = at_ns, .end_ns = at_ns + kMs, .kind = StepKind::kTraining});
    for (int pass = 0; pass <= passes; ++pass) {
      builder.Scope("aten::linear", ScopeKind::kFrameworkOp, at_ns + pass * kMs / 8, kMs / 10, 0,
                    pass == 0 ? at_ns : -1, stack);
      attribution.of_scope.push_back({0, LayerDirection::kForward});
    }
  }
  TraceModel model = builder.Build(10 * kMs);
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model, std::move(attribution), Judged({track}));
  const StepFacts facts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis});
  std::vector<Finding> found;
  for (RuleFinding& finding : FindAll(facts)) {
    if (finding.rule == "longer-steps") found.push_back(std::move(finding.finding));
  }
  return found;
}

TEST(LongerSteps, ArePassesWithoutGradientsWithinThem) {
  const std::vector<Finding> found = Within(4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].sentence, HasSubstr("runs 4 times without gradients for each pass with them"));
  EXPECT_NEAR(found[0].gain_ns, 0.4e6, 1);
  EXPECT_THAT(Within(1), IsEmpty());
}

}  // namespace longer_steps_test
}  // namespace dlhook::analyzer
