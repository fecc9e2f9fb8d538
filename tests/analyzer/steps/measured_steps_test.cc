// Steps with times and phases, and the table `steps`.
#include "analyzer/steps/measured_steps.h"

#include <gtest/gtest.h>

#include "analyzer/steps/step_assembly.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

// A program of gemms of different shapes, called one after another.
class Program {
 public:
  // Each letter of `calls` is a gemm with its own shape, `duration_ns` long, 10 ns after the previous one.
  void Run(const std::string& calls, int64_t duration_ns, ThreadIndex thread = 0) {
    for (char letter : calls) {
      builder_.Call(builder_.AddOp(GemmDefinition(letter, 7, 11, "NN")), now_ns_ + 10, duration_ns, thread);
      now_ns_ += 10 + duration_ns;
    }
  }
  void Pause(int64_t ns) { now_ns_ += ns; }
  int64_t now_ns() const { return now_ns_; }
  ModelBuilder& builder() { return builder_; }

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 0;
};

// The first track.
MeasuredTrack Measured(const TraceModel& model) {
  StepTrack track = FindStepsByCalls(model).at(0);
  MarkWarmUp(model, track);
  return MeasureSteps(model, track);
}

TEST(QuartilesTest, InterpolateLikeNumpy) {
  // numpy.percentile([1, 2, 3, 4], [25, 50, 75]) = 1.75, 2.5, 3.25; rounded.
  const Quartiles quartiles = QuartilesOf({400, 100, 300, 200});
  EXPECT_EQ(quartiles.lower, 175);
  EXPECT_EQ(quartiles.median, 250);
  EXPECT_EQ(quartiles.upper, 325);
  EXPECT_EQ(QuartilesOf({7}).median, 7);
  EXPECT_EQ(QuartilesOf({}).median, 0);
}

TEST(MeasuredStepsTest, GoFromFirstCallToFirstCall) {
  Program program;
  for (int i = 0; i < 10; ++i) {
    program.Run("abcd", 90);
    program.Pause(600);
  }
  const TraceModel model = program.builder().Build();
  ASSERT_EQ(FindStepsByCalls(model).size(), 1u);
  const std::vector<MeasuredStep> steps = Measured(model).steps;
  ASSERT_EQ(steps.size(), 10u);
  EXPECT_EQ(steps[0].start_ns, 10);
  EXPECT_EQ(steps[0].duration_ns(), 1000);
  EXPECT_EQ(steps[0].in_library_ns, 360);
  EXPECT_EQ(steps[0].calls, 4);
  EXPECT_EQ(steps[9].duration_ns(), 390);  // ends with its last call
  for (size_t i = 1; i < 10; ++i) EXPECT_EQ(steps[i].start_ns, steps[i - 1].end_ns);
  for (const MeasuredStep& step : steps) EXPECT_EQ(step.phase, Phase::kSteady);
}

// A convolution at the end of each step, image by image: the calls that repeat others are steps' calls, too.
TEST(MeasuredStepsTest, TheLastOneEndsWithItsLastImage) {
  Program program;
  for (int i = 0; i < 5; ++i) {
    program.Run("abd", 90);
    for (uint64_t image = 0; image < 6; ++image) {
      const OpIndex product = program.builder().AddOp(GemmDefinition('c', 7, 11, "NN"));
      program.builder().Call(product, program.now_ns() + 10, 90, 0, 0,
                             {0x10000, 0x20000 + image * 11 * 7 * 4, 0x40000 + image * 'c' * 7 * 4});
      program.Pause(100);
    }
    program.Pause(600);
  }
  const MeasuredTrack track = Measured(program.builder().Build());
  ASSERT_EQ(track.steps.size(), 5u);
  for (const MeasuredStep& step : track.steps) EXPECT_EQ(step.calls, 9);
  EXPECT_EQ(track.steps.back().duration_ns(), 890);
}

TEST(MeasuredStepsTest, SlowFirstStepsAreWarmUp) {
  Program program;
  for (int i = 0; i < 10; ++i) program.Run("abcd", i < 2 ? 200 : 90);
  const MeasuredTrack track = Measured(program.builder().Build());
  EXPECT_EQ(track.steps[0].phase, Phase::kWarmUp);
  EXPECT_EQ(track.steps[1].phase, Phase::kWarmUp);
  EXPECT_EQ(track.steps[2].phase, Phase::kSteady);
  EXPECT_EQ(track.Count(Phase::kSteady), 8);
}

TEST(MeasuredStepsTest, ASlowOneLaterIsSteady) {
  Program program;
  for (int i = 0; i < 10; ++i) program.Run("abcd", i == 6 ? 900 : 90);
  const MeasuredTrack track = Measured(program.builder().Build());
  EXPECT_EQ(track.Count(Phase::kSteady), 10);
}

TEST(MeasuredStepsTest, OtherWorkIsOther) {
  Program program;
  for (int i = 0; i < 20; ++i) program.Run(i % 10 == 9 ? "abcdxyz" : "abcd", 90);
  const MeasuredTrack track = Measured(program.builder().Build());
  ASSERT_EQ(track.steps.size(), 20u);
  EXPECT_EQ(track.steps[9].phase, Phase::kOther);
  EXPECT_EQ(track.steps[9].calls, 7);
  EXPECT_EQ(track.Count(Phase::kOther), 2);
}

TEST(MeasuredStepsTest, CreationsBelongToTheStepThatNeedsThem) {
  ModelBuilder builder;
  builder.Log(ReadTestData("cnn_plain.log"), 5000);
  const MeasuredTrack track = Measured(builder.Build());
  ASSERT_EQ(track.steps.size(), 6u);
  for (const MeasuredStep& step : track.steps) {
    EXPECT_EQ(step.calls, 20);
    EXPECT_EQ(step.creations, 20);
  }
  EXPECT_EQ(track.steps[0].start_ns, 5000);
  EXPECT_EQ(track.steps[0].phase, Phase::kWarmUp);
  EXPECT_EQ(track.calls_before, 0);
}

TEST(MeasuredStepsTest, ForwardAndBackwardOnDifferentThreads) {
  Program program;
  const ThreadIndex backward = program.builder().AddThread();
  for (int i = 0; i < 10; ++i) {
    program.Run("abc", 90);
    program.Run("CBA", 90, backward);
  }
  const MeasuredTrack track = Measured(program.builder().Build());
  EXPECT_EQ(track.thread, kNone);
  ASSERT_EQ(track.steps.size(), 10u);
  EXPECT_EQ(track.steps[3].calls, 6);
  EXPECT_EQ(track.steps[3].in_library_ns, 540);
}

TEST(MeasuredStepsTest, OverlappingCallsCountOnceAsInLibrary) {
  ModelBuilder builder;
  const ThreadIndex other = builder.AddThread();
  for (int i = 0; i < 10; ++i) {
    builder.Call(builder.AddOp(GemmDefinition(1, 7, 11, "NN")), i * 1000, 400);
    builder.Call(builder.AddOp(GemmDefinition(2, 7, 11, "NN")), i * 1000 + 200, 400, other);
  }
  const MeasuredTrack track = Measured(builder.Build());
  ASSERT_EQ(track.steps.size(), 10u);
  EXPECT_EQ(track.steps[4].in_library_ns, 600);
}

TEST(MeasuredStepsTest, IndependentThreadsHaveTheirOwn) {
  Program program;
  ModelBuilder& builder = program.builder();
  const ThreadIndex other = builder.AddThread();
  // Periods of 400 and 530 ns: nothing repeats in both threads together.
  for (int i = 0; i < 60; ++i) {
    for (int call = 0; call < 4; ++call) {
      builder.Call(builder.AddOp(GemmDefinition(call + 1, 7, 11, "NN")), i * 400 + call * 100, 90);
    }
  }
  for (int i = 0; i < 40; ++i) {
    for (int call = 0; call < 5; ++call) {
      builder.Call(builder.AddOp(GemmDefinition(call + 11, 7, 11, "NN")), 37 + i * 530 + call * 106, 90, other);
    }
  }
  const std::vector<StepTrack> tracks = FindStepsByCalls(builder.Build());
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(tracks[0].steps.size(), 60u);
  EXPECT_EQ(tracks[0].thread, 0u);
  EXPECT_EQ(tracks[1].steps.size(), 40u);
  EXPECT_EQ(tracks[1].thread, 1u);
}

TEST(MeasuredStepsTest, ProcessesHaveTheirOwn) {
  Program program;
  ModelBuilder& builder = program.builder();
  const ThreadIndex other = builder.AddThread(builder.AddProcess());
  for (int i = 0; i < 10; ++i) program.Run("abcd", 90);
  for (int i = 0; i < 10; ++i) {
    for (int call = 0; call < 3; ++call) {
      builder.Call(builder.AddOp(GemmDefinition(call + 1, 9, 9, "NN")), i * 300 + call * 100, 90, other);
    }
  }
  const std::vector<StepTrack> tracks = FindStepsByCalls(builder.Build());
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(tracks[0].process, 0u);
  EXPECT_EQ(tracks[1].process, 1u);
}

TEST(MeasuredStepsTest, ShapesThatChangeEveryTime) {
  ModelBuilder builder;
  int64_t now_ns = 0;
  const auto call = [&](const trace::OpDefinition& definition) {
    builder.Call(builder.AddOp(definition), now_ns, 90);
    now_ns += 100;
  };
  for (int i = 1; i <= 12; ++i) {  // sentences of different lengths
    call(GemmDefinition(10 * i, 7, 11, "NN"));
    call(GemmDefinition(10 * i, 11, 7, "NT"));
    trace::OpDefinition softmax;
    softmax.mutable_onednn()->set_primitive("softmax");
    softmax.mutable_onednn()->set_problem(std::to_string(10 * i) + "x7");
    call(softmax);
  }
  const MeasuredTrack track = Measured(builder.Build());
  EXPECT_TRUE(track.by_kind_only);
  EXPECT_EQ(track.steps.size(), 12u);
}

TEST(StepsTableTest, DurationsAddUpExactly) {
  Program program;
  program.Run("xyz", 90);
  for (int i = 0; i < 10; ++i) {
    program.Run("abcd", 90 + i);
    program.Pause(17 * i);
  }
  const Table table = RunPass("steps", program.builder().Build(20000));
  ASSERT_EQ(table.rows.size(), 10u);
  EXPECT_EQ(Integer(table, 0, "start"), 310);
  EXPECT_EQ(Sum(table, "duration"), program.now_ns() - 17 * 9 - 310);
  EXPECT_EQ(Sum(table, "calls"), 40);
  EXPECT_EQ(Integer(table, 0, "process"), 4711);
  EXPECT_EQ(Text(table, 3, "phase"), "steady");
  EXPECT_DOUBLE_EQ(Real(table, 0, "in_library_percent"), 90.0);
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_NE(table.notes[1].find("3 calls before"), std::string::npos) << table.notes[1];
}

TEST(StepsTableTest, SaysWhyItIsEmpty) {
  const Table table = RunPass("steps", ModelBuilder().Build(1000));
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(table.notes.size(), 1u);
}

// A training step of one GPU layer: a batch is copied, a convolution runs, kernels update weights.
class GpuProgram {
 public:
  void Step(int64_t batch, bool records_event = false) {
    Call(CopyDefinition("cudaMemcpyAsync",
                        "direction: HOST_TO_DEVICE asynchronous: true "
                        "host_memory: PINNED bytes: " +
                            std::to_string(batch * 12288)));
    Call(LaunchDefinition("normalize", static_cast<int>((batch * 3072 + 127) / 128)));
    Call(PlanDefinition({.number = 1, .engine = 1, .batch = batch}));
    Call(TimedDefinition("cudaStreamSynchronize", "cuda_sync"));
    for (int i = 0; i < 3; ++i) Call(LaunchDefinition("update", 4 + i));
    if (records_event) Call(TimedDefinition("cudaEventRecord", "cuda_stream"));
    now_ns_ += 300;
  }
  void Call(const trace::OpDefinition& definition) { builder_.Call(builder_.AddOp(definition), now_ns_ += 10, 5); }
  ModelBuilder& builder() { return builder_; }

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 0;
};

TEST(GpuStepsTest, CopiesAndLaunchesAreCounted) {
  GpuProgram program;
  for (int i = 0; i < 20; ++i) {
    // The calls of allocators and events differ from step to step.
    program.Step(8, /*records_event=*/i % 3 == 0);
    if (i == 7) program.Call(TimedDefinition("cudaMalloc", "cuda_memory"));
  }
  const Table table = RunPass("steps", program.builder().Build());
  ASSERT_EQ(table.rows.size(), 20u);
  for (size_t row = 0; row < table.rows.size(); ++row) {
    EXPECT_EQ(Text(table, row, "phase"), "steady") << row;
    EXPECT_EQ(Integer(table, row, "launches"), 4);
    EXPECT_EQ(Integer(table, row, "copies"), 1);
    EXPECT_EQ(Integer(table, row, "copied"), 8 * 12288);
    EXPECT_EQ(Integer(table, row, "trials"), 0);
  }
}

TEST(GpuStepsTest, TheLastSmallerBatchIsAnotherStep) {
  GpuProgram program;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 7; ++i) program.Step(64);
    program.Step(20);
  }
  const MeasuredTrack track = Measured(program.builder().Build());
  EXPECT_EQ(track.steps.size(), 24u);
  EXPECT_EQ(track.Count(Phase::kSteady), 21);
  EXPECT_EQ(track.Count(Phase::kOther), 3);
}

TEST(GpuStepsTest, AutotuningIsWarmUp) {
  GpuProgram program;
  for (int i = 0; i < 12; ++i) {
    if (i == 0) {
      program.Call(PlanDefinition({.number = 1, .engine = 1}));
      program.Call(PlanDefinition({.number = 2, .engine = 2, .pack_seen_before = true}));
    }
    program.Step(8);
    if (i == 0) {
      program.Call(PlanDefinition({.number = 3, .engine = 3, .batch = 9}));
      program.Call(PlanDefinition({.number = 4, .engine = 4, .pack_seen_before = true, .batch = 9}));
    }
  }
  const Table table = RunPass("steps", program.builder().Build());
  ASSERT_EQ(table.rows.size(), 12u);
  EXPECT_EQ(Text(table, 0, "phase"), "warm-up");
  EXPECT_EQ(Integer(table, 0, "trials"), 2);  // the others were before it
  EXPECT_EQ(Text(table, 1, "phase"), "steady");
}

TEST(GpuStepsTest, GraphLaunchesAloneAreSteps) {
  GpuProgram program;
  for (int i = 0; i < 10; ++i) {
    program.Call(CopyDefinition("cudaMemcpyAsync",
                                "direction: HOST_TO_DEVICE asynchronous: true "
                                "host_memory: PINNED bytes: 4096"));
    program.Call(TimedDefinition("cudaGraphLaunch", "cuda_graph"));
    program.Call(TimedDefinition("cudaStreamSynchronize", "cuda_sync"));
  }
  const Table table = RunPass("steps", program.builder().Build());
  ASSERT_EQ(table.rows.size(), 10u);
  EXPECT_EQ(Integer(table, 3, "launches"), 1);
  EXPECT_EQ(Integer(table, 3, "copies"), 1);
}

}  // namespace
}  // namespace dlhook::analyzer
