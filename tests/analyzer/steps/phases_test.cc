// Steps and phases of training loops written scope by scope, and of programs of which only calls are known.
#include "analyzer/steps/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/steps/step_assembly.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/builders/training_program.h"
#include "tests/analyzer/layers/torch_recorder.h"

namespace dlhook::analyzer {
namespace phases_test {

void TrainStep(TrainingProgram& program, int model, int64_t batch = 8) {
  program.Input();
  program.ZeroGrad();
  program.Forward(model, true, batch);
  program.Loss();
  program.Backward();
  program.Update();
  program.Other();  // loss.item()
}

// Must hold for every track.
void CheckTrack(const StepTrack& track) {
  int64_t end_ns = 0;
  for (const Step& step : track.steps) {
    EXPECT_GE(step.start_ns, end_ns);
    EXPECT_GT(step.end_ns, step.start_ns);
    end_ns = step.end_ns;
    int64_t phase_end_ns = step.start_ns;
    for (const PhaseInterval& phase : step.phases) {
      EXPECT_GE(phase.start_ns, phase_end_ns);
      EXPECT_GT(phase.end_ns, phase.start_ns);
      phase_end_ns = phase.end_ns;
    }
    EXPECT_LE(phase_end_ns, step.end_ns);
  }
}

StepTrack OnlyTrack(TrainingProgram& program) {
  const std::vector<StepTrack> tracks = program.Steps();
  EXPECT_EQ(tracks.size(), 1u);
  if (tracks.empty()) return {};
  CheckTrack(tracks[0]);
  return tracks[0];
}

TEST(PhasesTest, PlainTraining) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 5; ++i) TrainStep(program, net);
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "ttttt");
  for (size_t i = 0; i < 5; ++i) {
    const Step& step = track.steps[i];
    EXPECT_EQ(Phases(step), "input update forward backward update");
    EXPECT_EQ(step.batch, 8);
    EXPECT_EQ(step.micro_steps, 1);
    EXPECT_EQ(step.model, "LeNet");
    EXPECT_TRUE(step.has_scopes);
    EXPECT_FALSE(step.is_warm_up);
    EXPECT_TRUE(step.is_regular);
    if (i > 0) {
      EXPECT_EQ(step.start_ns, track.steps[i - 1].end_ns);
    }
  }
  // 11 scopes of 110 ns: input, zero_grad, 3 forward, loss, 3 backward, update, item. Times begin at the first scope.
  const Step& step = track.steps[1];
  EXPECT_EQ(step.start_ns, 11 * 110 + 10);
  EXPECT_EQ(step.end_ns, 2 * 11 * 110 + 10);
  EXPECT_EQ(step.phases[0].end_ns - step.phases[0].start_ns, 100);
  EXPECT_EQ(step.phases[2].start_ns, step.start_ns + 220);
  EXPECT_EQ(step.phases[2].end_ns, step.start_ns + 660);  // the loss, and the pause after it, belong to the forward
                                                          // pass
  EXPECT_EQ(step.phases[3].end_ns, step.start_ns + 980);
  EXPECT_EQ(step.phases[4].start_ns, step.start_ns + 990);
}

TEST(PhasesTest, GradientsZeroedAfterTheUpdateOrAtTheBeginningOrBeforeBackward) {
  for (int place = 0; place < 3; ++place) {
    TrainingProgram program;
    const int net = program.AddModel("LeNet", 3);
    for (int i = 0; i < 4; ++i) {
      if (place == 0) program.ZeroGrad();
      program.Forward(net);
      if (place == 1) program.ZeroGrad();
      program.Backward();
      program.Update();
      if (place == 2) program.ZeroGrad();
    }
    const StepTrack track = OnlyTrack(program);
    EXPECT_EQ(Kinds(track), "tttt");
    const char* const expected[] = {"update forward backward update", "forward update backward update",
                                    "forward backward update"};
    EXPECT_EQ(Phases(track.steps[1]), place == 2 ? "forward backward update update" : expected[place]) << place;
    EXPECT_EQ(track.steps[1].start_ns, 8 * 110 + 10) << place;
  }
}

TEST(PhasesTest, WeightsOnTheirWayToTheGpuAreNoPasses) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  const auto work = [&](const std::string& scope, const std::string& definition) {
    program.builder().Call(program.builder().AddOp(Definition(definition)), program.now_ns() + 30, 60);
    program.Other(scope);
    program.Pause(1000);
  };
  for (int i = 0; i < 5; ++i) {
    work("aten::to", "function: 'cudaMemcpyAsync' family: 'cuda_copy' copy { direction: HOST_TO_DEVICE bytes: 4096 }");
    work("aten::fill_", "function: 'cudaLaunchKernel' family: 'cuda_launch' launch { kernel: 'k' }");
  }
  for (int i = 0; i < 5; ++i) TrainStep(program, net);
  EXPECT_EQ(Kinds(OnlyTrack(program)), "ttttt");
}

// The processor time of finding the steps of so many requests, with so many stops of the recording.
double SecondsFor(int requests, int stops) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 1);
  for (int i = 0; i < requests; ++i) program.Forward(net);
  TraceModel model = program.Build();
  for (int i = 0; i < stops; ++i) model.recording_stops.push_back({0, model.end_ns + 2 * i, model.end_ns + 2 * i + 1});
  if (stops > 0) model.recording_stops.front().start_ns = model.end_ns - 150;
  const std::clock_t before = std::clock();
  const std::vector<StepTrack> tracks = FindStepTracks(model, program.attribution());
  const std::clock_t after = std::clock();
  EXPECT_EQ(tracks.size(), 1u);
  EXPECT_EQ(tracks[0].steps.size() == static_cast<size_t>(requests), stops == 0);
  return static_cast<double>(after - before) / CLOCKS_PER_SEC;
}

// As many as a server answers in an hour; a program that switches recording off and on again all the time. Times that grow
// with the square would be 256 times as long.
TEST(PhasesTest, TimeGrowsWithTheNumberOfRequests) { EXPECT_LT(SecondsFor(160'000, 0), 60 * SecondsFor(10'000, 0)); }

TEST(PhasesTest, TimeGrowsWithTheNumberOfStopsOfRecording) {
  EXPECT_LT(SecondsFor(160'000, 160'000), 60 * SecondsFor(10'000, 10'000));
}

TEST(PhasesTest, GradientAccumulation) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 4; ++i) {
    for (int micro = 0; micro < 3; ++micro) {
      program.Input();
      program.Forward(net);
      program.Backward();
    }
    program.Update();
    program.ZeroGrad();
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "tttt");
  EXPECT_EQ(track.steps[2].micro_steps, 3);
  EXPECT_EQ(Phases(track.steps[2]),
            "input forward backward input forward backward input forward backward update update");
}

TEST(PhasesTest, PassesOfUnequalSizeAddUp) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 4; ++i) {
    for (int64_t batch : {24, 40, 16}) {
      program.Forward(net, true, batch);
      program.Backward();
    }
    program.Update();
  }
  for (const Step& step : OnlyTrack(program).steps) {
    EXPECT_EQ(step.batch, 24);
    EXPECT_EQ(step.samples, 80);
  }
}

// Another loop may compute one of them again and again.
TEST(PhasesTest, HowManySamplesRunOneByOneIsNotKnown) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 4; ++i) {
    for (int sample = 0; sample < 16; ++sample) program.Forward(net, true, 1);
    program.Loss();
    program.Backward();
    program.Update();
  }
  for (const Step& step : OnlyTrack(program).steps) {
    EXPECT_EQ(step.batch, 0);
    EXPECT_EQ(step.samples, 0);
  }
}

TEST(PhasesTest, EvaluationInBetween) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 4; ++i) TrainStep(program, net);
    program.Input();  // shows that there is no further batch
    for (int i = 0; i < 3; ++i) {
      program.Input();
      program.Forward(net, /*grad=*/false);
      program.Loss(false);
      program.Other("aten::argmax");
    }
    program.Input();
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "ttttvvvttttvvv");
  EXPECT_EQ(Phases(track.steps[5]), "input inference");
  EXPECT_EQ(Phases(track.steps[7]), "input input update forward backward update");  // the first Input: see above
}

TEST(PhasesTest, AMetricBehindTheUpdateIsNoNetwork) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3), metric = program.AddModel("Accuracy", 2, "accuracy.");
  for (int i = 0; i < 5; ++i) {
    TrainStep(program, net);
    program.Measure(metric);
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "ttttt");
  for (const Step& step : track.steps) EXPECT_EQ(step.model, "LeNet");
}

TEST(PhasesTest, APassThatWasCutIsNoEvaluation) {
  for (const ProcessEnd end : {ProcessEnd::kExited, ProcessEnd::kVanished}) {
    TrainingProgram program;
    const int net = program.AddModel("LeNet", 3);
    for (int i = 0; i < 5; ++i) TrainStep(program, net);
    program.Forward(net);
    program.builder().model().processes[0].end = end;
    EXPECT_EQ(Kinds(OnlyTrack(program)), end == ProcessEnd::kExited ? "tttttv" : "ttttt");
  }
  TrainingProgram program;  // killed while it evaluates
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 5; ++i) TrainStep(program, net);
  program.Forward(net, /*grad=*/false);
  program.builder().model().processes[0].end = ProcessEnd::kVanished;
  EXPECT_EQ(Kinds(OnlyTrack(program)), "tttttv");
}

TEST(PhasesTest, WhereALightTapStopsBeforeTheGradientsTheStepTrains) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 4; ++i) TrainStep(program, net);
  program.Input();
  program.Forward(net);
  program.RecordScopes(false);
  program.Backward();
  program.Update();
  for (int i = 0; i < 2; ++i) TrainStep(program, net);
  program.RecordScopes(true);
  for (int i = 0; i < 2; ++i) TrainStep(program, net);
  EXPECT_EQ(Kinds(OnlyTrack(program)), "ttttttttt");
}

// To learn shapes; a dummy batch for a trace.
TEST(PhasesTest, OnePassBeforeTheFirstStepIsNoEvaluation) {
  for (const bool validates : {false, true}) {
    TrainingProgram program;
    const int net = program.AddModel("LeNet", 3);
    program.Forward(net, /*grad=*/false, 1);
    for (int i = 0; i < 5; ++i) TrainStep(program, net);
    if (validates) program.Forward(net, /*grad=*/false);
    EXPECT_EQ(Kinds(OnlyTrack(program)), validates ? "vtttttv" : "ttttt");
  }
}

// What weight normalization computes when the program looks at a weight.
TEST(PhasesTest, AWeightThatIsComputedIsNoPass) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3),
            weight = program.AddModel("LeNet", 1, "features.0.parametrizations.weight.");
  for (int i = 0; i < 5; ++i) {
    TrainStep(program, net);
    program.Forward(weight, /*grad=*/false);
    program.Input();
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "ttttt");
}

// Only the network's own beginning separates batches.
TEST(PhasesTest, EvaluationWithoutLoaderAndWithoutNoGrad) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 4; ++i) TrainStep(program, net);
    for (int i = 0; i < 3; ++i) program.Forward(net, /*grad=*/false);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "ttttvvvttttvvvttttvvv");
}

TEST(PhasesTest, AGradientlessPassOfEveryStepIsAPartOfIt) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 6; ++i) {
    program.Input();
    program.Forward(net, /*grad=*/false);  // pseudo-labels
    program.Forward(net);
    program.Backward();
    program.Update();
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "tttttt");
}

TEST(PhasesTest, EvaluationInEachRoundIsNoPartOfTheNextStep) {
  for (int64_t batch : {16, 8}) {  // another size than in training; or the same, but the first step lacks it
    TrainingProgram program;
    const int net = program.AddModel("LeNet", 3);
    for (int i = 0; i < 6; ++i) {
      if (batch == 16) program.Forward(net, /*grad=*/false, batch);
      program.Forward(net);
      program.Backward();
      program.Update();
      if (batch == 8) program.Forward(net, /*grad=*/false, batch);
    }
    const StepTrack track = OnlyTrack(program);
    EXPECT_EQ(Kinds(track), batch == 16 ? "vtvtvtvtvtvt" : "tvtvtvtvtvtv");
    for (const Step& step : track.steps) EXPECT_EQ(step.batch, step.kind == StepKind::kTraining ? 8 : batch);
  }
}

TEST(PhasesTest, ATeacherIsAPartOfTheStepAndEvaluationIsNot) {
  TrainingProgram program;
  const int teacher = program.AddModel("Teacher", 2);
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 12; ++i) {
    program.Forward(teacher, /*grad=*/false);
    program.Forward(net);
    program.Backward();
    program.Update();
    if (i % 3 == 2) program.Forward(net, /*grad=*/false);
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "tttvtttvtttvtttv");
  for (const Step& step : track.steps) EXPECT_EQ(step.model, "LeNet");
}

TEST(PhasesTest, ANetworkThatRanOnceIsNoPartOfTheRequests) {
  TrainingProgram program;
  const int tried = program.AddModel("Tried", 2);
  const int served = program.AddModel("Served", 2);
  program.Forward(tried, false, 1);
  for (int i = 0; i < 20; ++i) program.Forward(served, false);
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "iiiiiiiiiiiiiiiiiiiii");
  EXPECT_EQ(track.steps[0].model, "Tried");
  EXPECT_EQ(track.steps[1].model, "Served");
}

// An encoder runs once per request, a decoder once per word.
TEST(PhasesTest, ANetworkInALoopIsAPartOfTheRequest) {
  TrainingProgram program;
  const int encoder = program.AddModel("Encoder", 2);
  const int decoder = program.AddModel("Decoder", 2);
  for (int i = 0; i < 5; ++i) {
    program.Forward(encoder, false);
    for (int word = 0; word < 7; ++word) program.Forward(decoder, false);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "iiiii");
}

// With sentences hardly two steps have the same number of rows.
TEST(PhasesTest, BatchesThatAlwaysVaryAreAlike) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 10; ++i) TrainStep(program, net, 8 + i);
  for (const Step& step : OnlyTrack(program).steps) {
    EXPECT_TRUE(step.is_regular);
    EXPECT_EQ(step.sort, "batches 8 to 17");
  }
}

// The sorts of steps in a range each, `numbers` different ones in turn.
std::set<std::string> SortsInRanges(int numbers) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 24; ++i) {
    const int64_t start_ns = program.now_ns();
    TrainStep(program, net);
    program.builder().Scope(absl::StrCat("step ", i % numbers), ScopeKind::kUserRange, start_ns,
                            program.now_ns() - start_ns);
  }
  std::set<std::string> sorts;
  for (const Step& step : OnlyTrack(program).steps) sorts.insert(step.sort);
  return sorts;
}

TEST(PhasesTest, NamesThatCountStepsDoNotTellThemApart) {
  EXPECT_THAT(SortsInRanges(2), testing::ElementsAre("step 0", "step 1"));
  EXPECT_THAT(SortsInRanges(6), testing::ElementsAre(""));   // in every epoch again
  EXPECT_THAT(SortsInRanges(24), testing::ElementsAre(""));  // never again
}

TEST(PhasesTest, TrainingsAfterOneAnotherAreSortsOfTheirOwn) {
  TrainingProgram program;
  const int models[] = {program.AddModel("A", 2), program.AddModel("B", 2)};
  for (int model : models) {
    for (int64_t batch : {8, 16}) {
      for (int i = 0; i < 5; ++i) TrainStep(program, model, i == 4 ? 3 : batch);
    }
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "tttttttttttttttttttt");
  const std::string sorts[] = {"A, batch 8", "A, batch 16", "B, batch 8", "B, batch 16"};
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(track.steps[i].is_regular, i % 5 != 4) << i;
    if (i % 5 != 4) {
      EXPECT_EQ(track.steps[i].sort, sorts[i / 5]) << i;
    }
  }
}

TEST(PhasesTest, MoreCallsThanLaterAreWarmUp) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  const trace::OpDefinition packing = OneDnnDefinition(
      "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
      "dst:f32::blocked:Acdb16a::f0,,,"
      "16x3x3x3,0.01");
  for (int i = 0; i < 8; ++i) {
    if (i < 2) program.builder().Call(program.builder().AddOp(packing), program.now_ns() + 130, 5);
    program.Forward(net, /*grad=*/false);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "iiiiiiii");
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(track.steps[i].is_warm_up, i < 2) << i;
}

TEST(PhasesTest, VaryingBatch) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < 5; ++i) TrainStep(program, net, i == 4 ? 3 : 8);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "tttttttttt");
  EXPECT_EQ(track.steps[3].batch, 8);
  EXPECT_TRUE(track.steps[3].is_regular);
  EXPECT_EQ(track.steps[4].batch, 3);
  EXPECT_FALSE(track.steps[4].is_regular);
}

TEST(PhasesTest, GeneratorAndDiscriminatorAreOneStep) {
  TrainingProgram program;
  const int generator = program.AddModel("Generator", 2);
  const int discriminator = program.AddModel("Discriminator", 3);
  const StackIndex first = program.builder().AddStack({{"gan.py", "train", 10}});
  const StackIndex second = program.builder().AddStack({{"gan.py", "train", 20}});
  for (int i = 0; i < 5; ++i) {
    program.Input();
    program.Forward(generator, /*grad=*/false);
    program.Forward(discriminator);
    program.Backward();
    program.Update("Adam", first);
    program.Forward(generator);
    program.Forward(discriminator);
    program.Backward();
    program.Update("Adam", second);
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "ttttt");
  EXPECT_EQ(Phases(track.steps[1]), "input forward backward update forward backward update");
  EXPECT_EQ(track.steps[1].model, "");
  EXPECT_EQ(track.steps[1].micro_steps, 1);
}

TEST(PhasesTest, OneModelAfterTheOtherIsNoCycle) {
  TrainingProgram program;
  const int models[] = {program.AddModel("A", 2), program.AddModel("B", 2)};
  for (int model : models) {
    const StackIndex stack = program.builder().AddStack({{"two.py", "train", 10u + static_cast<uint32_t>(model)}});
    for (int i = 0; i < 6; ++i) {
      program.Forward(model);
      program.Backward();
      program.Update("SGD", stack);
    }
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "tttttttttttt");
  EXPECT_EQ(track.steps[2].model, "A");
  EXPECT_EQ(track.steps[8].model, "B");
}

TEST(PhasesTest, WaitingForLoaderIsInput) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 2);
  for (int i = 0; i < 4; ++i) {
    program.builder().Scope("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", ScopeKind::kUserRange,
                            program.now_ns() + 10, 5000);
    program.Pause(5010);
    program.Forward(net);
    program.Backward();
    program.Update();
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "tttt");
  EXPECT_EQ(track.steps[1].phases[0].kind, PhaseKind::kInput);
  EXPECT_EQ(track.steps[1].phases[0].end_ns - track.steps[1].phases[0].start_ns, 5000);
}

TEST(PhasesTest, AutogradHasAThreadOfItsOwn) {
  TrainingProgram program;
  const ThreadIndex autograd = program.builder().AddThread();
  const int net = program.AddModel("LeNet", 2);
  for (int i = 0; i < 4; ++i) {
    program.Input();
    program.Forward(net);
    program.Backward(autograd);
    program.Update();
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(track.thread, kNone);
  EXPECT_EQ(Kinds(track), "tttt");
  EXPECT_EQ(Phases(track.steps[3]), "input forward backward update");
}

// Optimizer.step(closure): the passes are inside it, on a GPU without the gradients, and so is what else it does.
TEST(PhasesTest, AnOptimizersClosureIsNotItsUpdate) {
  for (const bool has_thread : {false, true}) {
    TorchRecorder recorder;
    ModelBuilder& builder = recorder.builder();
    const ThreadIndex autograd = has_thread ? builder.AddThread() : 0;
    recorder.set_gemm(builder.AddOp(GemmDefinition(120, 4, 256, "TN")));
    const ModuleIndex net = builder.AddModule("torch.nn.modules.linear.Linear", {"fc1"});
    const ModelBuilder::Frame main = {"/u/train.py", "<module>", 44}, closure = {"/u/train.py", "closure", 20};
    const ModelBuilder::Frame step = {"/v/site-packages/torch/optim/adamw.py", "AdamW.step", 200};
    const StackIndex in_step = builder.AddStack({step, main}), in_closure = builder.AddStack({closure, step, main});
    const StackIndex in_net = builder.AddStack({{"/v/torch/module.py", "call", 3, net}, closure, step, main});
    std::vector<int64_t> updates_ns;
    for (int i = 0; i < 4; ++i) {
      const int64_t node = recorder.next_node() + 1;
      recorder.Begin("Optimizer.step#AdamW.step", ScopeKind::kUserRange, -1, builder.AddStack({main}));
      recorder.Linear(in_net);
      recorder.SwitchTo(autograd);
      recorder.Node("AddmmBackward0", node, {"aten::mm"});
      recorder.Node("TBackward0", node - 1);
      recorder.SwitchTo(0);
      if (!has_thread) recorder.Op("aten::norm", in_closure, false);
      updates_ns.push_back(recorder.now_ns());
      recorder.Op("aten::add_", in_step, false);
      recorder.End();
    }
    const TraceModel model = builder.Build();
    const std::vector<StepTrack> tracks = FindStepTracks(model, AttributeByFramework(model));
    ASSERT_EQ(tracks.size(), 1u);
    ASSERT_EQ(Kinds(tracks[0]), "tttt");
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(Phases(tracks[0].steps[i]), "forward backward update") << has_thread;
      const int64_t before_ns = updates_ns[i] - tracks[0].steps[i].phases.back().start_ns;
      EXPECT_GE(before_ns, 0) << has_thread;
      EXPECT_LE(before_ns, 20) << has_thread;
    }
  }
}

TEST(PhasesTest, TrainingsInThreadsAreTracksOfTheirOwn) {
  TrainingProgram program;
  const ThreadIndex other = program.builder().AddThread();
  const int net = program.AddModel("LeNet", 2);
  for (int i = 0; i < 4; ++i) {
    for (ThreadIndex thread : {0u, other}) {
      program.Forward(net, true, 8, thread);
      program.Backward(thread);
      program.Update("SGD", kNone, thread);
    }
  }
  const std::vector<StepTrack> tracks = program.Steps();
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(Kinds(tracks[0]), "tttt");
  EXPECT_EQ(Kinds(tracks[1]), "tttt");
  EXPECT_NE(tracks[0].thread, tracks[1].thread);
}

TEST(PhasesTest, RequestsEndWithTheirOwnWork) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  const int64_t batches[] = {1, 4, 1, 2, 8, 1, 4, 2, 1, 8};
  for (int64_t batch : batches) {
    program.Other("aten::div");  // normalizes the input
    program.Forward(net, /*grad=*/false, batch);
    program.Other("aten::softmax");
    program.Pause(10000);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "iiiiiiiiii");
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(track.steps[i].batch, batches[i]);
    EXPECT_TRUE(track.steps[i].is_regular);
    EXPECT_FALSE(track.steps[i].is_warm_up);
    EXPECT_EQ(Phases(track.steps[i]), "inference");
  }
  EXPECT_EQ(track.steps[4].end_ns - track.steps[4].start_ns, 5 * 110 - 10);  // from aten::div to aten::softmax
}

TEST(PhasesTest, ThreadsThatServeHaveTracksOfTheirOwn) {
  TrainingProgram program;
  const ThreadIndex other = program.builder().AddThread();
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 6; ++i) {
    program.Forward(net, false, 1, i % 2 == 0 ? 0 : other);
    program.Pause(1000);
  }
  const std::vector<StepTrack> tracks = program.Steps();
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(Kinds(tracks[0]), "iii");
  EXPECT_EQ(Kinds(tracks[1]), "iii");
}

TEST(PhasesTest, AnEnsembleIsOneRequest) {
  TrainingProgram program;
  const int models[] = {program.AddModel("A", 2), program.AddModel("B", 2), program.AddModel("C", 2)};
  for (int i = 0; i < 5; ++i) {
    for (int model : models) program.Forward(model, false);
    program.Pause(1000);
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "iiiii");
  EXPECT_EQ(track.steps[0].model, "");
}

// Each member of the ensemble prepares the input itself, with the same layers.
TEST(PhasesTest, NetworksThatRunInTurnAreOneRequest) {
  TrainingProgram program;
  const int prepare = program.AddModel("Prepare", 1);
  const int models[] = {program.AddModel("A", 2), program.AddModel("B", 2)};
  for (int i = 0; i < 6; ++i) {
    for (int model : models) {
      program.Forward(prepare, false);
      program.Forward(model, false);
    }
    program.Pause(1000);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "iiiiii");
}

// A recurrent cell is the first layer and repeats before the pass is complete.
TEST(PhasesTest, ACellInALoopIsOnePass) {
  TrainingProgram program;
  const int cell = program.AddModel("Rnn", 1);
  const int head = program.AddModel("Rnn", 1);
  for (int i = 0; i < 5; ++i) {
    for (int t = 0; t < 4; ++t) program.Forward(cell, false);
    program.Forward(head, false);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "iiiii");
}

// The last operation of a pass takes the last row of its result: it belongs to the first layer.
TEST(PhasesTest, APassMayGoOnBehindItsLastLayer) {
  TrainingProgram program;
  const int first = program.AddModel("Decoder", 1);
  const int head = program.AddModel("Decoder", 1);
  for (int i = 0; i < 5; ++i) {
    program.Forward(first, false);
    program.Forward(head, false);
    if (i < 4) program.Measure(first);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "iiiii");
}

TEST(PhasesTest, WarmUpIsToldApart) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 10; ++i) {
    TrainStep(program, net);
    if (i < 2) program.Pause(5000);
  }
  const StepTrack track = OnlyTrack(program);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(track.steps[i].is_warm_up, i < 2) << i;
}

// A weight is made in the first pass and kept: later ones begin with another operation of the same layer.
TEST(PhasesTest, ALaterPassMayBeginWithAnotherOperation) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  program.Measure(net);                                              // aten::add_ in each layer …
  for (int i = 0; i < 4; ++i) program.Forward(net, /*grad=*/false);  // … then aten::conv2d
  EXPECT_EQ(OnlyTrack(program).steps.size(), 5u);
}

// The first pass makes what all others keep: it has layers that never come again, before the others' first.
TEST(PhasesTest, TheFirstPassMayMakeWhatLaterOnesKeep) {
  TrainingProgram program;
  const int kept = program.AddModel("Clip", 2, "text.");
  const int net = program.AddModel("Clip", 3, "image.");
  for (int i = 0; i < 6; ++i) {
    if (i == 0) program.Forward(kept, /*grad=*/false);
    program.Forward(net, /*grad=*/false);
  }
  EXPECT_EQ(Kinds(OnlyTrack(program)), "iiiiii");
}

TEST(PhasesTest, SeveralUpdatesInTurnAreOneStepWithAllTheirSamples) {
  TrainingProgram program;
  const int generator = program.AddModel("Generator", 2);
  const int critic = program.AddModel("Critic", 2);
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 5; ++k) {
      const int net = k < 4 ? critic : generator;
      program.Forward(net, /*grad=*/true, 32);
      program.Loss();
      program.Backward();
      program.Update(net == critic ? "Adam" : "SGD");
    }
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(track.steps.size(), 8u);
  EXPECT_EQ(track.steps[2].updates, 5);
  EXPECT_EQ(track.steps[2].updates_of_most, 4);
  EXPECT_EQ(track.steps[2].samples, 4 * 32);
}

// Recording makes steps longer: those of the first window are compared with each other.
TEST(PhasesTest, RecordedStepsAreNoWarmUpForTheirCost) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 80; ++i) {
    const bool is_recorded = i < 20 || i % 16 < 2;
    program.RecordScopes(is_recorded);
    TrainStep(program, net);
    program.Pause((is_recorded ? 1000 : 0) + (i < 2 ? 5000 : 0));
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(track.steps.size(), 80u);
  for (size_t i = 0; i < 80; ++i) EXPECT_EQ(track.steps[i].is_warm_up, i < 2) << i;
}

TEST(PhasesTest, CreatingPrimitivesIsWarmUp) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  trace::OpDefinition creation = OneDnnDefinition(
      "onednn_verbose,v1,primitive,create:cache_miss,cpu,convolution,jit:avx512_core,forward_training,"
      "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0,,"
      "alg:convolution_direct,mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.01");
  for (int i = 0; i < 8; ++i) {
    if (i == 1) program.builder().Call(program.builder().AddOp(creation), program.now_ns() + 150, 20);
    TrainStep(program, net);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "tttttttt");
  EXPECT_FALSE(track.steps[0].is_warm_up);  // as fast as the others, and prepared nothing: warm-up ends with it
  EXPECT_FALSE(track.steps[1].is_warm_up);
}

TEST(PhasesTest, LightTapTellsWhichStepsAreComplete) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 12; ++i) {
    if (i == 4) program.RecordScopes(false);
    if (i == 8) program.RecordScopes(true);
    if (i == 10) program.RecordScopes(false);
    TrainStep(program, net);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "tttttttttttt");
  for (size_t i = 0; i < 12; ++i) {
    const bool recorded = i < 4 || i == 8 || i == 9;
    EXPECT_EQ(track.steps[i].has_scopes, recorded) << i;
    EXPECT_EQ(track.steps[i].sort, "") << i;
    EXPECT_EQ(Phases(track.steps[i]), "input update forward backward update") << i;
  }
}

// A step that a bounded trace kept for being slow has its phases, but is no sample of the others; its time counts.
TEST(PhasesTest, StepsKeptForBeingSlowAreInNoMean) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 60; ++i) {
    const bool is_slow = i % 20 == 19 && i > 20;
    if (i == 20) program.RecordScopes(false);
    if (is_slow) program.RecordScopes(true);
    TrainStep(program, net);
    if (is_slow) program.RecordScopes(false, true);
    program.Pause(is_slow ? 300 : 0);
  }
  const StepTrack track = Judged({OnlyTrack(program)}).front();
  const ComparedSteps steps = MainSteps({track});
  EXPECT_EQ(track.steps[39].left_out, LeftOut::kSlow);
  EXPECT_EQ(Phases(track.steps[39]), "input update forward backward update");
  EXPECT_EQ(track.steps[40].left_out, LeftOut::kNotRecorded);
  EXPECT_EQ(steps.count() + steps.unrecorded, 59) << "the last one does not count";
  EXPECT_THAT(steps.left_out.Text(), ::testing::HasSubstr("2 recorded for being slow"));
  for (const Step& step : steps.tracks.front().steps) EXPECT_FALSE(step.is_kept_as_slow);
}

// Where no optimizer tells steps between windows, none lasts from one window into the next.
TEST(PhasesTest, WithoutOptimizersStepsOfABoundedTraceAreInWindows) {
  for (const bool is_bounded : {true, false}) {
    TrainingProgram program;
    const int net = program.AddModel("LeNet", 3);
    for (int i = 0; i < 20; ++i) {
      if (i == 0 || i == 10) program.RecordScopes(false);
      if (i == 0 || i == 10) program.Pause(100'000);
      if (i == 0 || i == 10) program.RecordScopes(true);
      program.Forward(net);
      program.Loss();
      program.Backward();
    }
    program.RecordScopes(false);
    if (is_bounded) program.builder().model().aggregates.push_back({.thread = 0, .cause = AggregateCause::kTraceLimit});
    const StepTrack track = OnlyTrack(program);
    const auto lasts_long = [](const Step& step) { return step.end_ns - step.start_ns > 50'000; };
    EXPECT_EQ(std::ranges::count_if(track.steps, lasts_long), is_bounded ? 0 : 1);
    EXPECT_GE(track.steps.size(), 18u);
  }
}

// Of steps between windows the time is known, and which are much longer: most of them are there.
TEST(PhasesTest, MuchLongerStepsBetweenWindowsAreCounted) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 100; ++i) {
    const bool is_recorded = i < 20 || i % 16 < 2;
    program.RecordScopes(is_recorded);
    TrainStep(program, net);
    program.Pause((is_recorded ? 1000 : 0) + (i % 10 == 9 ? 50'000 : 0));
  }
  program.RecordScopes(false);
  const StepTrack track = OnlyTrack(program);
  const ComparedSteps steps = MainSteps({track});
  EXPECT_EQ(steps.interrupted, 9) << "the last step does not count";
  EXPECT_EQ(steps.interrupted_every, 10);
  EXPECT_EQ(steps.unrecorded + steps.count() + steps.interrupted, 99);
  EXPECT_GT(steps.unrecorded, 55);
  const Step &first = track.steps.front(), &last = track.steps.back();
  EXPECT_NEAR(steps.MeanWithInterruptedNs(), static_cast<double>(last.start_ns - first.start_ns) / 99, 30);
}

// Nothing but the optimizers' steps is recorded between windows, which may begin and end in a step.
TEST(PhasesTest, BetweenWindowsOfALightTapUpdatesEndSteps) {
  for (const int updates : {1, 2}) {
    for (const bool in_step : {false, true}) {
      TrainingProgram program;
      const int net = program.AddModel("LeNet", 3);
      std::vector<int64_t> ends_ns;
      for (int i = 0; i < 30; ++i) {
        const bool switches = i % 10 == 4 || i % 10 == 9, records = i % 10 == 9;
        if (switches && !in_step) program.RecordScopes(records);
        program.Forward(net);
        program.Loss();
        if (switches && in_step) program.RecordScopes(records);
        program.Backward();
        for (int update = 0; update < updates; ++update) program.Update();
        ends_ns.push_back(program.now_ns());
      }
      program.RecordScopes(false);
      const StepTrack track = OnlyTrack(program);
      ASSERT_EQ(Kinds(track), std::string(30, 't')) << updates << " updates, " << in_step;
      for (size_t i = 0; i + 1 < 30; ++i) {
        EXPECT_NEAR(static_cast<double>(track.steps[i].end_ns), static_cast<double>(ends_ns[i]), 50) << i;
        EXPECT_EQ(track.steps[i].sort, "") << i;
      }
    }
  }
}

TEST(PhasesTest, NoStepSpansATimeInWhichRecordingWasStopped) {
  TrainingProgram program;
  const int net = program.AddModel("LeNet", 3);
  for (int i = 0; i < 10; ++i) {
    TrainStep(program, net);
    if (i != 5) continue;
    program.builder().model().recording_stops.push_back({0, program.now_ns() + 10, program.now_ns() + 1'000'000});
    program.Pause(1'000'010);
  }
  const StepTrack track = OnlyTrack(program);
  ASSERT_EQ(Kinds(track), "ttttttttt");
  EXPECT_LT(track.steps[4].end_ns, track.steps[5].start_ns - 1'000'000);
}

TEST(PhasesTest, CompiledRegions) {
  TrainingProgram program;
  ModelBuilder& builder = program.builder();
  int64_t now_ns = 0;
  const auto scope = [&](const std::string& name, ScopeKind kind, int64_t link = -1) {
    builder.Scope(name, kind, now_ns += 10, 100, 0, link);
    now_ns += 100;
  };
  for (int i = 0; i < 5; ++i) {
    scope("Torch-Compiled Region: 0/0", ScopeKind::kUserRange);
    scope("CompiledFunctionBackward", ScopeKind::kBackwardNode, i);
    scope("Optimizer.step#SGD.step", ScopeKind::kUserRange);
  }
  const StepTrack track = OnlyTrack(program);
  EXPECT_EQ(Kinds(track), "ttttt");
  EXPECT_EQ(Phases(track.steps[2]), "forward backward update");
}

// A function that has its gradients computed, by autograd or by code of its own, encloses both passes.
TEST(PhasesTest, CompiledRegionsWithGradients) {
  trace::OpDefinition product = OneDnnDefinition(
      "onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx2,undef,src_f32::blocked:ab::f0 wei_f32::blocked:ab::f0 "
      "dst_f32::blocked:ab::f0,,,4x8:8x3,0.01");
  for (const bool by_engine : {true, false}) {
    ModelBuilder builder;
    for (int i = 0; i < 5; ++i) {
      const int64_t at = 1000 * i;
      builder.Scope("Torch-Compiled Region: 0/0", ScopeKind::kFrameworkOp, at, 500);
      builder.Scope("CompiledFunction", ScopeKind::kFrameworkOp, at + 10, 200, 0, i);
      builder.Scope("aten::addmm", ScopeKind::kFrameworkOp, at + 20, 150);
      builder.Call(builder.AddOp(product), at + 30, 100);
      if (by_engine) {
        builder.Scope("CompiledFunctionBackward", ScopeKind::kBackwardNode, at + 300, 100, 0, i);
      } else {
        builder.Scope("Torch-Compiled Region: !0/1/0", ScopeKind::kFrameworkOp, at + 300, 100);
      }
      // A compiled optimizer leaves out its own scope.
      builder.Scope("Torch-Compiled Region: 1/0", ScopeKind::kFrameworkOp, at + 600, 200);
      builder.Scope("Torch-Compiled Region: 2/0", ScopeKind::kFrameworkOp, at + 650, 100);
    }
    builder.model().compiled.push_back(
        {.kind = CompiledKind::kCompilation, .region = "2/0", .file = "/l/torch/optim/sgd.py", .function = "step"});
    const TraceModel model = builder.Build();
    const std::vector<StepTrack> tracks = FindStepTracks(model, AttributeByFramework(model));
    ASSERT_EQ(tracks.size(), 1u);
    EXPECT_EQ(Kinds(tracks[0]), "ttttt");
    EXPECT_EQ(Phases(tracks[0].steps[2]), "forward backward update");
  }
}

// A compiler that folds constants has the libraries compute, before the first pass.
TEST(PhasesTest, WhatACompilerComputesIsNoPass) {
  trace::OpDefinition product = OneDnnDefinition(
      "onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx2,undef,src_f32::blocked:ab::f0 wei_f32::blocked:ab::f0 "
      "dst_f32::blocked:ab::f0,,,4x8:8x3,0.01");
  ModelBuilder builder;
  const StackIndex compiler =
      builder.AddStack({{"/l/torch/_inductor/graph.py", "run", 1}, {"/u/serve.py", "<module>", 9}});
  builder.Scope("aten::convolution", ScopeKind::kFrameworkOp, 0, 150, 0, -1, compiler);
  builder.Call(builder.AddOp(product), 10, 100);
  for (int i = 1; i < 6; ++i) {
    builder.Scope("Torch-Compiled Region: 0/0", ScopeKind::kFrameworkOp, 1000 * i, 500);
    builder.Scope("mkl::_mkl_linear", ScopeKind::kFrameworkOp, 1000 * i + 20, 150);
    builder.Call(builder.AddOp(product), 1000 * i + 30, 100);
  }
  const TraceModel model = builder.Build();
  const std::vector<StepTrack> tracks = FindStepTracks(model, AttributeByFramework(model));
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "iiiii");
}

// TensorFlow's executor updates weights for which it has gradients while it computes others.
TEST(PhasesTest, GraphNodesOverlap) {
  TrainingProgram program;
  ModelBuilder& builder = program.builder();
  const ThreadIndex other = builder.AddThread();
  Attribution attribution;
  attribution.layers.resize(1);
  attribution.layers[0].model = "sequential";
  attribution.layers[0].name = "sequential/conv2d";
  std::vector<std::pair<std::pair<ThreadIndex, int64_t>, Place>> places;
  const trace::OpDefinition work = OneDnnDefinition(
      "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
      "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0,,"
      "alg:convolution_direct,mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.01");
  const auto node = [&](const std::string& name, int64_t start_ns, ThreadIndex thread, LayerDirection direction) {
    builder.Scope(name, ScopeKind::kGraphNode, start_ns, 100, thread);
    if (name.ends_with("Conv2D")) builder.Call(builder.AddOp(work), start_ns + 20, 60, thread);
    places.push_back({{thread, start_ns}, {direction == LayerDirection::kUnknown ? kNone : 0, direction}});
  };
  for (int i = 0; i < 4; ++i) {
    const int64_t at = 1000 * i;
    node("while/body/IteratorGetNext:IteratorGetNext", at + 10, 0, LayerDirection::kUnknown);
    node("sgd/iterations:AssignAddVariableOp", at + 115, other, LayerDirection::kUpdate);
    node("sequential/conv2d/Conv2D:_MklNativeConv2D", at + 120, 0, LayerDirection::kForward);
    node("gradient_tape/a:Conv2DBackpropFilter", at + 240, 0, LayerDirection::kBackwardWeights);
    node("adam/update_a:ResourceApplyAdam", at + 350, other, LayerDirection::kUpdate);
    node("gradient_tape/b:Conv2DBackpropFilter", at + 360, 0, LayerDirection::kBackwardWeights);
    node("adam/update_b:ResourceApplyAdam", at + 470, other, LayerDirection::kUpdate);
    node("metrics/accuracy:Equal", at + 480, 0, LayerDirection::kForward);
  }
  const TraceModel model = builder.Build();
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const std::pair<ThreadIndex, int64_t> key = {model.scopes.thread[scope], model.scopes.start_ns[scope]};
    attribution.of_scope.push_back(
        std::find_if(places.begin(), places.end(), [&](const auto& place) { return place.first == key; })->second);
  }
  attribution.of_call.resize(model.calls.size());
  const std::vector<StepTrack> tracks = FindStepTracks(model, attribution);
  ASSERT_EQ(tracks.size(), 1u);
  CheckTrack(tracks[0]);
  EXPECT_EQ(Kinds(tracks[0]), "tttt");
  EXPECT_EQ(Phases(tracks[0].steps[1]), "input forward backward update");
  EXPECT_EQ(tracks[0].steps[1].start_ns, 1010);
  EXPECT_EQ(tracks[0].steps[1].end_ns, 2010);
}

// A program of which only calls are known, with their directions.
class CallProgram {
 public:
  void Run(const std::string& calls, bool with_places = false) {
    for (char letter : calls) {
      const bool backward = letter >= 'A' && letter <= 'Z';
      trace::OpDefinition definition;
      definition.set_function("onednn:exec");
      definition.set_family("onednn");
      trace::OneDnn* onednn = definition.mutable_onednn();
      onednn->set_operation("exec");
      onednn->set_primitive("convolution");
      onednn->set_prop_kind(backward ? "backward_data" : "forward_training");
      onednn->set_problem("mb8_ic3oc" + std::to_string(std::tolower(letter)) + "_ih32oh32kh3sh1dh0ph1");
      builder_.Call(builder_.AddOp(definition), now_ns_ + 10, 90);
      now_ns_ += 100;
    }
  }
  void Pause(int64_t ns) { now_ns_ += ns; }
  StepTrack Track() {
    const std::vector<StepTrack> tracks = FindStepTracks(builder_.Build(), Attribution());
    EXPECT_EQ(tracks.size(), 1u);
    if (tracks.empty()) return {};
    CheckTrack(tracks[0]);
    return tracks[0];
  }

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 0;
};

TEST(PhasesOfCallsTest, Training) {
  CallProgram program;
  for (int i = 0; i < 6; ++i) {
    program.Run("abcCBA");
    program.Pause(200);
  }
  const StepTrack track = program.Track();
  EXPECT_EQ(Kinds(track), "tttttt");
  EXPECT_FALSE(track.steps[0].has_scopes);
  EXPECT_EQ(track.steps[0].batch, 8);
  EXPECT_EQ(Phases(track.steps[3]), "forward backward");
  EXPECT_EQ(track.steps[3].end_ns - track.steps[3].start_ns, 800);
}

TEST(PhasesOfCallsTest, EvaluationInBetween) {
  CallProgram program;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int i = 0; i < 5; ++i) program.Run("abcCBA");
    for (int i = 0; i < 3; ++i) program.Run("abc");
  }
  const StepTrack track = program.Track();
  const std::string kinds = Kinds(track);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 't'), 20) << kinds;
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 'v'), 12) << kinds;
  EXPECT_EQ(kinds.substr(0, 8), "tttttvvv");
}

TEST(PhasesOfCallsTest, Inference) {
  CallProgram program;
  for (int i = 0; i < 6; ++i) {
    program.Run("abc");
    program.Pause(500);
  }
  const StepTrack track = program.Track();
  EXPECT_EQ(Kinds(track), "iiiiii");
  EXPECT_EQ(track.steps[2].end_ns - track.steps[2].start_ns, 290);  // without the pause after it
}

TEST(PhasesOfCallsTest, NoDirectionsNoKind) {
  ModelBuilder builder;
  for (int i = 0; i < 6; ++i) {
    for (int call = 0; call < 3; ++call) {
      builder.Call(builder.AddOp(GemmDefinition(5 + call, 7, 11, "NN")), i * 400 + call * 100, 90);
    }
  }
  const std::vector<StepTrack> tracks = FindStepTracks(builder.Build(), Attribution());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "uuuuuu");
}

TEST(BatchSizeTest, IsWhatAllProductsHaveInCommon) {
  ModelBuilder builder;
  Attribution attribution;
  for (int i = 0; i < 6; ++i) {
    // y = x w in a C program, as seen by a column-major library: n is the batch.
    builder.Call(builder.AddOp(GemmDefinition(100, 16, 50, "TN")), i * 1000, 90);
    builder.Call(builder.AddOp(GemmDefinition(10, 16, 100, "TN")), i * 1000 + 100, 90);
    builder.Call(builder.AddOp(GemmDefinition(100, 10, 16, "NT")), i * 1000 + 200, 90);
    for (LayerDirection direction :
         {LayerDirection::kForward, LayerDirection::kForward, LayerDirection::kBackwardWeights}) {
      attribution.of_call.push_back({kNone, direction});
    }
  }
  const std::vector<StepTrack> tracks = FindStepTracks(builder.Build(), attribution);
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "tttttt");
  for (const Step& step : tracks[0].steps) EXPECT_EQ(step.batch, 16);
}

// A linear layer of 5 tokens of 16 samples each, then one of a mean over tokens: 64 is no batch, though a side of both.
TEST(BatchSizeTest, IsNotKnownWhereRowsDiffer) {
  for (const int64_t rows : {16, 80}) {
    TorchRecorder recorder;
    ModelBuilder& builder = recorder.builder();
    const ModuleIndex net = builder.AddModule("__main__.Net", {""});
    const StackIndex stack = builder.AddStack({{"/v/torch/module.py", "call", 3, net}, {"/u/train.py", "<module>", 4}});
    for (int i = 0; i < 4; ++i) {
      const int64_t node = recorder.next_node() + 1;
      for (const OpIndex op :
           {builder.AddOp(GemmDefinition(64, 80, 32, "TN")), builder.AddOp(GemmDefinition(64, rows, 64, "TN"))}) {
        recorder.set_gemm(op);
        recorder.Linear(stack);
      }
      recorder.Node("AddmmBackward0", node + 2);
      recorder.Node("AddmmBackward0", node);
      recorder.Begin("Optimizer.step#SGD.step", ScopeKind::kUserRange);
      recorder.End();
    }
    const TraceModel model = builder.Build();
    const std::vector<StepTrack> tracks = FindStepTracks(model, AttributeByFramework(model));
    ASSERT_EQ(tracks.size(), 1u);
    EXPECT_EQ(Kinds(tracks[0]), "tttt");
    for (const Step& step : tracks[0].steps) EXPECT_EQ(step.batch, rows == 80 ? 80 : 0);
  }
}

TEST(TurnsTest, AreFoundInCycles) {
  using Places = std::vector<size_t>;
  EXPECT_EQ(FindTurns({1, 2, 1, 2, 1, 2}), (Places{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(FindTurns({1, 1, 2, 1, 1, 2}), (Places{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(FindTurns({1, 2, 1, kNoTurn, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}).size(), 24u);
  EXPECT_EQ(FindTurns({1, 1, 1, 1}), Places());
  EXPECT_EQ(FindTurns({1, 1, 1, 1, 1, 2, 2, 2, 2, 2}), Places());
  EXPECT_EQ(FindTurns({}), Places());
}

}  // namespace phases_test
}  // namespace dlhook::analyzer
