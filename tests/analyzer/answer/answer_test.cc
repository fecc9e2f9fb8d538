// Sentences and columns of the answer screen that the golden runs do not have.
#include "analyzer/answer/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/answer/live.h"
#include "analyzer/answer/sentences.h"
#include "analyzer/answer/step_parts.h"
#include "analyzer/findings/rules.h"
#include "tests/analyzer/builders/gpu_program.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/builders/training_program.h"
#include "tests/analyzer/layers/linear_training.h"

namespace dlhook::analyzer {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Function>
auto WithFacts(TraceModel model, Function function) {
  const Choices choices = ResolveChoices(&model);
  const RunTotals totals = ComputeTotals(model);
  const LayerAnalysis analysis(model);
  return function(StepFacts(model, {.choices = &choices, .totals = &totals, .analysis = &analysis}));
}

std::string AnswerOf(TraceModel model, size_t width = 80) {
  return WithFacts(std::move(model), [width](const StepFacts& facts) {
    return MakeAnswer(facts, {.run = "RUN", .width = width}).value();
  });
}

std::string AnswerAfterWait(int64_t wait_ns, int wait_every = 0) {
  return AnswerOf(LinearTraining({.steps = 30, .wait = {20, wait_ns}, .wait_every = wait_every}), 400);
}

TEST(AnswerTest, SaysHowManyMuchLongerStepsWereLeftOut) {
  EXPECT_THAT(AnswerAfterWait(1000), HasSubstr("mean of 28 of 30 (without 1 much longer of 1.78 us and the last one)"));
  EXPECT_THAT(AnswerAfterWait(0), Not(HasSubstr("much longer")));
}

// What holds much of the time, or comes again and again, is a part of the program.
TEST(AnswerTest, TheMeanOfAllStepsHasTheLongerOnesThatMatter) {
  EXPECT_THAT(AnswerAfterWait(1'000'000), ContainsRegex("With 1 much longer step of 1.00 ms it takes 3[0-9.]+ us\\."));
  EXPECT_THAT(AnswerAfterWait(1'000'000), ContainsRegex("5128205 rows/s; [0-9]+ from the first step to the last\\."));
  EXPECT_THAT(AnswerAfterWait(1000, 6), HasSubstr("much longer steps of 1.78 us on average (each 6th) it takes"));
}

TEST(AnswerTest, SaysHowLongValidationTook) {
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30, .validations = 6})),
              ContainsRegex("6\\s+steps\\s+without\\s+training\\s+\\(such\\s+as\\s+validation\\)\\s+took"));
  EXPECT_THAT(AnswerOf(LinearTraining({.steps = 30})), Not(HasSubstr("validation")));
}

// Samples of each step; in passes of 8.
ComparedSteps StepsOf(const std::vector<int64_t>& samples, StepKind kind = StepKind::kTraining) {
  ComparedSteps steps;
  steps.kind = kind;
  steps.batch = 8;
  StepTrack& track = steps.tracks.emplace_back();
  for (const int64_t of_step : samples) {
    Step& step = track.steps.emplace_back();
    step.batch = std::min<int64_t>(8, of_step);
    step.samples = of_step;
    step.micro_steps = static_cast<int32_t>(std::max<int64_t>(1, of_step / 8));
  }
  return steps;
}

TEST(AnswerTest, SaysWhatAStepReallyTakes) {
  constexpr double kSecond = 1e9;
  EXPECT_EQ(BatchSentence(StepsOf({8, 8}), kSecond / 2), " Batch 8: 16 samples/s.");
  EXPECT_EQ(BatchSentence(StepsOf({24, 24}), kSecond), " Batch 3 x 8: 24 samples/s.");
  EXPECT_EQ(BatchSentence(StepsOf({20, 20}), kSecond), " 20 samples a step: 20 samples/s.");
  EXPECT_EQ(BatchSentence(StepsOf({1, 4, 8, 8}, StepKind::kInference), kSecond),
            " 1 to 8 samples a request, 5.25 on average: 5.25 samples/s.");
  EXPECT_EQ(BatchSentence(StepsOf({8, 0}), kSecond), "");
  ComparedSteps ranks = StepsOf({8, 8});
  ranks.tracks.push_back(ranks.tracks.front());
  EXPECT_EQ(BatchSentence(ranks, kSecond), " Batch 8: 8.00 samples/s in each of 2 processes.");
  EXPECT_EQ(BatchSentence(ranks, kSecond, true),
            " Batch 8: 16 samples/s in 2 ranks, if each has samples of its own; 8.00 in each.");
  ranks.tracks.pop_back();
  ranks.other_threads = 2;
  ranks.batch_is_rows = true;
  EXPECT_EQ(BatchSentence(ranks, kSecond),
            " 8 rows (samples, or their tokens): 8.00 rows/s in the busiest of 3 threads.");
}

// Of requests with so many samples each, and how many there are.
int64_t BatchOf(const std::vector<std::pair<int64_t, int>>& requests) {
  StepTrack track;
  for (const auto& [samples, count] : requests) {
    for (int i = 0; i < count; ++i) {
      Step& step = track.steps.emplace_back();
      step.start_ns = static_cast<int64_t>(track.steps.size()) * 100;
      step.end_ns = step.start_ns + 100;
      step.kind = StepKind::kInference;
      step.batch = step.samples = samples;
    }
  }
  return MainSteps({track}).batch;
}

TEST(AnswerTest, StepsOfDifferentProgramsHaveTheirOwnMeans) {
  ModelBuilder builder;
  builder.AddProcess();
  TraceModel model = builder.Build();
  model.processes[0].script = model.processes[1].script = "a.py";
  ComparedSteps steps = StepsOf({8, 8});
  steps.tracks.push_back(steps.tracks.front());
  steps.tracks.back().process = 1;
  for (Step& step : steps.tracks.front().steps) step.end_ns = 2000;
  for (Step& step : steps.tracks.back().steps) step.end_ns = 7000;
  EXPECT_EQ(ProgramsSentence(model, steps), "");
  model.processes[1].script = "b.py";
  EXPECT_EQ(
      ProgramsSentence(model, steps),
      " These are steps of different programs (a.py 2.00 us, b.py 7.00 us): this mean, and what follows, is of all of "
      "them. Report one trace alone.");
}

TEST(AnswerTest, AMixOfBatchesIsNoBatch) {
  EXPECT_EQ(BatchOf({{1, 25}, {2, 12}, {4, 7}, {8, 4}}), 0);
  EXPECT_EQ(BatchOf({{8, 39}, {4, 1}}), 8);
}

TEST(AnswerTest, SaysWhichPartOfARunStepsAreFrom) {
  TraceModel model = LinearTraining({.steps = 30});
  for (const int64_t end_ns : {model.start_ns, model.end_ns}) {
    model.scope_windows = {{0, model.start_ns, end_ns}};
    EXPECT_THAT(AnswerOf(model), Not(HasSubstr("They are from")));
  }
  model.scope_windows = {{0, model.start_ns, model.start_ns + model.wall_ns() / 2}};
  EXPECT_THAT(AnswerOf(model), ContainsRegex("Operations\\s+were\\s+recorded\\s+in\\s+15\\s+of\\s+30\\s+steps"));
  EXPECT_THAT(AnswerOf(model), ContainsRegex("Recording\\s+took"));
  model.processes[0].losses = {{.reason = LossReason::kTraceLimit, .calls = 1}};
  EXPECT_THAT(AnswerOf(model), ContainsRegex("Operations\\s+were\\s+recorded\\s+in\\s+15\\s+of\\s+30\\s+steps"));
  EXPECT_THAT(AnswerOf(model), Not(ContainsRegex("Recording\\s+took"))) << "the same of all steps";
  model.processes[0].losses.clear();
  model.scope_windows = {{0, model.start_ns, model.start_ns + model.wall_ns() / 5 * 4}};
  EXPECT_THAT(AnswerOf(model), ContainsRegex("in\\s+which\\s+operations\\s+were\\s+recorded")) << "few others";
  model.scope_windows.clear();
  model.aggregates = {{.window_start_ns = model.end_ns - 1, .window_end_ns = model.end_ns, .count = 1}};
  EXPECT_THAT(AnswerOf(model), ContainsRegex("DLHOOK_MAX_BYTES"));
}

TEST(AnswerTest, WhatStepsConsistOfIsNotSaidWhereItWasNotKept) {
  TraceModel model = LinearTraining({.steps = 30});
  const auto screen_of = [](const TraceModel& of) {
    return WithFacts(of, [](const StepFacts& facts) { return MakeLiveScreen(facts, {}, {}).value(); });
  };
  EXPECT_THAT(screen_of(model), HasSubstr("Where a training step goes"));
  model.scope_windows = {{0, model.start_ns, model.start_ns}};
  EXPECT_THAT(screen_of(model), AllOf(HasSubstr("not known"), Not(HasSubstr("Where a training step goes"))));
}

TEST(AnswerTest, AnOperationThatTakesMostOfTheTimeIsNamed) {
  for (const int64_t ns : {400, 900}) {
    ModelBuilder builder;
    builder.Call(builder.AddOp(GemmDefinition(64, 3000, 3000, "NN")), 10, ns);
    const std::string answer = AnswerOf(builder.Build(1000));
    EXPECT_THAT(answer, ns > 500 ? ContainsRegex("No\\s+rule\\s+judges\\s+this:\\s+90\\s+%\\s+gemm\\s+m64\\s+n3000")
                                 : testing::Matcher<const std::string&>(Not(HasSubstr("rule judges"))));
  }
}

TEST(AnswerTest, WideTerminalsShowTheRangeOfRepeatedLayers) {
  const TraceModel model =
      LinearTraining({.steps = 30, .layers = {"block.0.fc", "block.1.fc", "block.2.fc", "block.3.fc"}});
  EXPECT_THAT(AnswerOf(model), Not(HasSubstr("of one layer")));
  EXPECT_THAT(AnswerOf(model, 120), ContainsRegex("block\\.\\*\\.fc x4 .* [0-9]+ ns to [0-9]+ ns\n"));
}

// Two ops in 1 s; what the thread did in between, in ms. `has_lines`: the second one is in a function of the program.
TraceModel Gap(int64_t running_ms, int64_t queued_ms, int64_t sleep_ms, int64_t looks = 200, bool has_lines = false) {
  constexpr int64_t kMs = 1'000'000;
  ModelBuilder builder;
  StackIndex before = kNone, after = kNone;
  if (has_lines) {
    before = builder.AddStack({{"train.py", "<module>", 7}});
    after = builder.AddStack({{"train.py", "main.<locals>.encode", 12}, {"train.py", "<module>", 8}});
  }
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 0, 100 * kMs, 0, -1, before);
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 900 * kMs, 100 * kMs, 0, -1, after);
  CounterSeries series = {.thread = 0, .tid = 1, .kind = CounterKind::kStates};
  for (const char* name : {"running", "queued", "sleep"}) series.names.push_back(builder.AddName(name));
  for (int64_t look = 0; look <= looks; ++look) {  // from 100 ms to 900 ms
    series.time_ns.push_back((100 * kMs + 800 * kMs * look / looks) - 1);
    for (int64_t ms : {running_ms, queued_ms, sleep_ms})
      series.value.push_back(static_cast<uint64_t>(ms * look * kMs / looks));
  }
  builder.model().states.push_back(std::move(series));
  return builder.Build();
}

std::string AnswerOfGap(int64_t running_ms, int64_t queued_ms, int64_t sleep_ms, int64_t looks = 200) {
  return AnswerOf(Gap(running_ms, queued_ms, sleep_ms, looks));
}

TEST(AnswerTest, TellsComputingFromWaiting) {
  EXPECT_THAT(AnswerOfGap(800, 0, 0), ContainsRegex("nothing that dlhook sees +800 ms +80 %"));
  const std::string half = AnswerOfGap(300, 100, 400);
  EXPECT_THAT(half, ContainsRegex("blocked \\(sleep\\) +400 ms +40 %"));
  EXPECT_THAT(half, ContainsRegex("nothing that dlhook sees +400 ms +40 %")) << "ready to run is not blocked";
  EXPECT_THAT(AnswerOfGap(0, 0, 800), Not(HasSubstr("nothing that dlhook sees")));
}

// Gloo has no calls: its collective operations are ranges, in which the thread mostly waits for other ranks.
TEST(AnswerTest, WaitingForRanksIsNotPython) {
  ModelBuilder builder;
  constexpr int64_t kMs = 1'000'000;
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 0, 100 * kMs);
  builder.Scope("gloo:all_reduce", ScopeKind::kUserRange, 100 * kMs, 600 * kMs);
  builder.Scope("aten::mm", ScopeKind::kFrameworkOp, 900 * kMs, 100 * kMs);
  const std::string answer = AnswerOf(builder.Build());
  EXPECT_THAT(answer, ContainsRegex("  communication +600 ms +60 %"));
  EXPECT_THAT(answer, ContainsRegex(" +200 ms +20 %"));
}

// … and operators of torch.distributed begin them, or wait until a thread of Gloo has done one.
TEST(AnswerTest, OperatorsOfRanksAreCommunication) {
  ModelBuilder builder;
  constexpr int64_t kMs = 1'000'000;
  int64_t at_ms = 0;
  for (const char* name :
       {"aten::mm", "c10d::allreduce_", "_c10d_functional::wait_tensor", "_AlltoAllSingleBackward"}) {
    builder.Scope(name, ScopeKind::kFrameworkOp, at_ms * kMs, 250 * kMs);
    at_ms += 250;
  }
  EXPECT_THAT(AnswerOf(builder.Build()), ContainsRegex("  communication +750 ms +75 %"));
}

// DistributedDataParallel's are asynchronous: while one runs, the next one has begun.
TEST(AnswerTest, ARanksTimeInSeveralCollectivesAtOnceCountsOnce) {
  TrainingProgram program;
  const int network = program.AddModel("Net", 2);
  ModelBuilder& builder = program.builder();
  const ThreadIndex other = builder.AddThread(builder.AddProcess());
  for (int step = 0; step < 10; ++step) {
    for (const ThreadIndex thread : {ThreadIndex{0}, other}) {
      program.Forward(network, true, 8, thread);
      program.Loss(true, thread);
      program.Backward(thread);
      program.Update("SGD", kNone, thread);
    }
  }
  for (int i = 0; i < 2; ++i)
    builder.Scope("gloo:all_reduce", ScopeKind::kUserRange, 0, program.now_ns(), builder.AddThread());
  const std::string screen = WithFacts(
      program.Build(), [](const StepFacts& facts) { return MakeLiveScreen(facts, {}, {.width = 80}).value(); });
  EXPECT_THAT(screen, ContainsRegex("process [0-9]+ +[0-9.]+ us +100 % +0 %\n"));
  EXPECT_THAT(screen, ContainsRegex("process [0-9]+ +[0-9.]+ us +0 % +0 %  late\n"));
}

TEST(AnswerTest, PartsThatTheProgramCausesHaveItsLines) {
  for (const bool sleeps : {false, true}) {
    const std::string name = sleeps ? "blocked (sleep)" : "Python or native code";
    const std::string answer = AnswerOf(Gap(sleeps ? 0 : 800, 0, sleeps ? 800 : 0, 200, /*has_lines=*/true), 120);
    EXPECT_THAT(answer, ContainsRegex(" 800 ms +80 %  #+\n +80 % train\\.py:7 to 12 in encode\n"));
    EXPECT_THAT(answer, HasSubstr("No rule judges this: 80 % " + name + ", at train.py:7 to 12 in encode."));
    EXPECT_THAT(answer, Not(HasSubstr("Findings: none")));
  }
}

// By which the page chooses colours.
TEST(AnswerTest, PartsOfAStepHaveKinds) {
  std::vector<std::string> kinds;
  for (const StepPart& part : WithFacts(Gap(300, 100, 400), [](const StepFacts& f) { return PartsOfStep(f, 7); })) {
    kinds.emplace_back(PartKindName(part.kind));
  }
  EXPECT_THAT(kinds, ElementsAre("blocked", "framework", "not_seen"));
}

// Between two lines: generated code and libraries without hooks compute there as well as Python; only samples tell.
TEST(AnswerTest, TimeBetweenOpsIsNotCalledPython) {
  for (const int samples : {0, 20}) {
    ModelBuilder builder;
    const StackIndex stack = builder.AddStack({{"train.py", "<module>", 7}});
    for (const int64_t ms : {0, 900}) {
      builder.Scope("aten::mm", ScopeKind::kFrameworkOp, ms * 1'000'000, 100'000'000, 0, -1, stack);
    }
    const FrameIndex kernel = builder.AddNativeStack({"kernel"}, "/cache/libgenerated.so");
    for (int i = 0; i < samples; ++i)
      builder.Sample(120'000'000 + i * 39'000'000, 39'000'000, i % 2 == 0 ? kernel : kNone, stack);
    const std::string answer = AnswerOf(builder.Build());
    EXPECT_THAT(answer, ContainsRegex(samples == 0 ? "Python or native code +800 ms" : "  Python +4[0-9]+ ms"));
    EXPECT_EQ(answer.find("libgenerated.so") != std::string::npos, samples > 0);
  }
}

TEST(AnswerTest, FewLooksTellARange) {
  EXPECT_THAT(AnswerOfGap(300, 100, 400, 20), ContainsRegex("blocked \\(sleep; 2[0-9]+ ms to 5[0-9]+ ms\\) +400 ms"));
  EXPECT_THAT(AnswerOfGap(0, 0, 800, 20), ContainsRegex("blocked \\(sleep\\)")) << "it was always blocked";
  EXPECT_THAT(AnswerOfGap(770, 0, 30, 20), Not(HasSubstr("blocked"))) << "it may be one look's chance";
}

TEST(AnswerTest, WithoutStepsNamesWhatCanBeRead) {
  const std::string seen = AnswerOfGap(800, 0, 0);
  EXPECT_THAT(seen, HasSubstr("--table accounting"));
  EXPECT_THAT(seen, HasSubstr("rules (no repeating step was found)"));
}

std::string HowLongAreRequests(int64_t pause_ns, int64_t stopped_ns = 0) {
  GpuProgram program;
  if (stopped_ns > 0) program.builder().model().recording_stops = {{0, 1000 - stopped_ns, 1000}};
  program.Steps({0, 1000, 2000, 3000}, 0, StepKind::kInference, pause_ns);
  program.Build(3000);
  const TableKind how_long = {"how long", "", [](const TraceModel& model, const TableOptions& options) {
                                Table table;
                                table.notes.push_back(HowLong(StepFacts(model, options)));
                                return absl::StatusOr<Table>(table);
                              }};
  return program.Make(how_long).notes.front();
}

// Of 320 steps in windows, which take so much longer for it.
template <typename Function>
auto OfStepsInWindows(int64_t added_ns, int64_t noise_ns, Function function) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 320; ++i) {
    const bool is_recorded = i < 20 || i % 32 < 2;
    program.RecordScopes(is_recorded);
    program.Forward(net);
    program.Loss();
    program.Backward();
    program.Update();
    program.Pause((is_recorded ? added_ns : 0) + i * 7919 % noise_ns);
  }
  program.RecordScopes(false);
  TraceModel model = program.Build(program.now_ns());
  model.processes.front().capabilities.push_back({.object = "/lib/libtorch_cpu.so"});
  return WithFacts(std::move(model), function);
}

TEST(AnswerTest, SaysWhatRecordingTookByWindows) {
  const std::string dear = OfStepsInWindows(500, 4, &HowLong);
  EXPECT_THAT(dear, HasSubstr("A training step takes 881 ns, mean of 281 steady ones; the middle half take"));
  EXPECT_THAT(dear, HasSubstr("Operations were recorded in 38 of 320 steps; what follows is the mean of"));
  EXPECT_THAT(dear, ContainsRegex("Recording took 6\\.[0-9] % of all steps, 3[0-9] % of the recorded ones"));
  EXPECT_THAT(OfStepsInWindows(0, 400, &HowLong), HasSubstr("Recording took at most "));
  const auto cost_of_scopes = [](const StepFacts& facts) {
    return CostOfScopes(facts, [](ScopeIndex) { return true; });
  };
  EXPECT_NEAR(OfStepsInWindows(500, 4, cost_of_scopes), 506, 6) << "usual costs are for runs without windows";
}

TEST(AnswerTest, SaysThatMostOfARunIsInNoRequest) {
  EXPECT_THAT(HowLongAreRequests(700), HasSubstr("Between requests 1.40 us passed."));
  EXPECT_THAT(HowLongAreRequests(100), Not(HasSubstr("Between")));
  EXPECT_THAT(HowLongAreRequests(700, 700), Not(HasSubstr("Between"))) << "recording was stopped";
}

std::vector<std::string> RemarksOn(GpuProgram program, int64_t end_ns) {
  program.Build(end_ns);
  const TableKind remarks = {"remarks", "", [](const TraceModel& model, const TableOptions& options) {
                               Table table;
                               table.notes = StepRemarks(StepFacts(model, options));
                               return absl::StatusOr<Table>(table);
                             }};
  return program.Make(remarks).notes;
}

TEST(AnswerTest, SaysHowBusyGpusAre) {
  GpuProgram program;
  program.Steps({0, 1000, 2000, 3000});
  for (int64_t start_ns : {0, 1000, 2000}) program.Work({.start_ns = start_ns + 100, .end_ns = start_ns + 700});
  const auto unlinked = HasSubstr("are not linked to a call");
  EXPECT_THAT(RemarksOn(program, 3000), ElementsAre(HasSubstr("GPUs are busy 60 % of the time"), unlinked));
  for (int64_t start_ns : {0, 1000, 2000}) program.Work({.start_ns = start_ns + 400, .end_ns = start_ns + 700});
  EXPECT_THAT(RemarksOn(program, 3000),
              ElementsAre(HasSubstr("GPUs are busy 60 %"), HasSubstr("In 50 % of it kernels overlap"), unlinked));
}

TEST(AnswerTest, SaysWhatRecordingTakesOfStepsThatAreMostlyLaunches) {
  for (const int64_t step_ns : {20'000, 50'000}) {
    GpuProgram program;
    program.Steps({0, step_ns, 2 * step_ns, 3 * step_ns});
    for (int64_t at_ns : {int64_t{10}, step_ns + 10, 2 * step_ns + 10}) {
      program.Work({.start_ns = at_ns + 5, .end_ns = at_ns + 700, .requested_ns = at_ns, .call_ns = 4, .thread = 0});
    }
    const std::vector<std::string> remarks = RemarksOn(program, 3 * step_ns);
    EXPECT_EQ(remarks.size(), step_ns == 20'000 ? 2 : 1);
    if (step_ns == 20'000) {
      EXPECT_THAT(remarks.front(), HasSubstr("Recording takes about 2.20 us"));
    }
  }
}

}  // namespace
}  // namespace dlhook::analyzer
