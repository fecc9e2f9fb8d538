// Layers and steps of programs that XLA compiled, from their operations in windows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/steps/phases.h"
#include "tests/analyzer/builders/model_builder.h"
#include "tests/analyzer/builders/training_program.h"

namespace dlhook::analyzer {
namespace {

class XlaProgram {
 public:
  // One operation of 90 ns. `run` 0: of an execution that was recorded in part.
  void Run(const std::string& program, const std::string& primitive, const std::string& layer, CompiledPass pass,
           int64_t run) {
    auto& ops = builder_.model().compiled_ops;
    uint32_t op = 0;
    while (op < ops.size() && (ops[op].program != program || ops[op].primitive != primitive || ops[op].layer != layer ||
                               ops[op].pass != pass)) {
      ++op;
    }
    if (op == ops.size()) {
      ops.push_back({program, "i", "fusion", primitive, layer, "", true, pass});
    }
    builder_.Scope(primitive, ScopeKind::kXlaOp, now_ns_ += 100, 90, 0, CompiledLink{op, run}.Encoded());
    if (primitive == "dot_general") builder_.Call(product_, now_ns_, 80);
  }

  // XLA runs the constant of a gradient first, and an update before the backward pass has ended.
  void TrainStep(int64_t run) {
    Run("jit_step", "broadcast", "l2", CompiledPass::kBackward, run);
    Run("jit_step", "dot_general", "l1", CompiledPass::kForward, run);
    Run("jit_step", "dot_general", "l2", CompiledPass::kForward, run);
    Run("jit_step", "dot_general", "l2", CompiledPass::kBackward, run);
    Run("jit_step", "add", "update (train.py:9)", CompiledPass::kUpdate, run);
    Run("jit_step", "dot_general", "l1", CompiledPass::kBackward, run);
    Run("jit_step", "add", "update (train.py:9)", CompiledPass::kUpdate, run);
  }

  void Validate(int64_t run) {
    Run("jit_eval", "dot_general", "l1", CompiledPass::kForward, run);
    Run("jit_eval", "dot_general", "l2", CompiledPass::kForward, run);
  }

  // Nothing is known of `ns`; before that a window of jaxlib's profiler ends.
  void Pause(int64_t ns) {
    builder_.model().scope_windows.push_back({0, window_start_ns_, now_ns_ + 95});
    window_start_ns_ = (now_ns_ += ns) + 1;
  }

  TraceModel Build() { return builder_.Build(); }

 private:
  OpIndex AddProduct() {
    trace::OpDefinition product;
    product.set_family("jax");
    return builder_.AddOp(product);
  }

  ModelBuilder builder_;
  const OpIndex product_ = AddProduct();
  int64_t now_ns_ = 0;
  int64_t window_start_ns_ = 0;
};

std::vector<StepTrack> StepsOf(const TraceModel& model) { return FindStepTracks(model, AttributeByFramework(model)); }

TEST(XlaStepsTest, LayersAreNamedByTheirOperations) {
  XlaProgram program;
  program.TrainStep(1);
  const TraceModel model = program.Build();
  const Attribution attribution = AttributeByFramework(model);
  ASSERT_EQ(attribution.layers.size(), 3u);
  const Place forward = attribution.of_scope[1], backward = attribution.of_scope[5];
  EXPECT_EQ(attribution.layers[forward.layer].name, "l1");
  EXPECT_EQ(attribution.layers[forward.layer].type, "linear");
  EXPECT_EQ(forward.direction, LayerDirection::kForward);
  EXPECT_EQ(backward.layer, forward.layer);
  EXPECT_EQ(backward.direction, LayerDirection::kBackward);
  EXPECT_EQ(attribution.layers[attribution.of_scope[6].layer].type, "optimizer");
}

TEST(XlaStepsTest, CompilationsAreALayerOfTheirOwn) {
  ModelBuilder builder;
  builder.Scope("XLA compiles jit_step", ScopeKind::kXlaCompilation, 100, 90);
  const TraceModel model = builder.Build();
  const Attribution attribution = AttributeByFramework(model);
  ASSERT_EQ(attribution.layers.size(), 1u);
  EXPECT_EQ(attribution.layers[attribution.of_scope[0].layer].name, "compilation (XLA)");
}

TEST(XlaStepsTest, AnExecutionIsAStep) {
  XlaProgram program;
  for (int64_t run = 1; run <= 5; ++run) program.TrainStep(run);
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttttt");
  for (const Step& step : tracks[0].steps) EXPECT_EQ(Phases(step), "forward backward update");
}

TEST(XlaStepsTest, PartsOfExecutionsAreNone) {
  XlaProgram program;
  program.TrainStep(0);
  for (int64_t run = 1; run <= 3; ++run) program.TrainStep(run);
  program.TrainStep(0);
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttt");
}

TEST(XlaStepsTest, APauseBetweenWindowsIsInNoStep) {
  XlaProgram program;
  int64_t run = 0;
  for (int window = 0; window < 2; ++window) {
    for (int i = 0; i < 3; ++i) program.TrainStep(++run);
    program.Pause(1'000'000);
  }
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttttt");
  for (const Step& step : tracks[0].steps) EXPECT_LT(step.end_ns - step.start_ns, 1000);
}

// The window has the beginning of the next step, so the last whole one is known.
TEST(XlaStepsTest, AStepEndsWhereAPartOfTheNextBegins) {
  XlaProgram program;
  for (int64_t run = 1; run <= 3; ++run) program.TrainStep(run);
  program.Run("jit_step", "broadcast", "l2", CompiledPass::kBackward, 0);
  program.Pause(1'000'000);
  for (int64_t run = 4; run <= 6; ++run) program.TrainStep(run);
  program.Pause(1'000'000);
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "tttttt");
  EXPECT_EQ(tracks[0].steps[2].end_ns - tracks[0].steps[2].start_ns, 700);
}

TEST(XlaStepsTest, APartWithoutItsBeginningEndsNoStep) {
  XlaProgram program;
  for (int64_t run = 1; run <= 3; ++run) program.TrainStep(run);
  program.Run("jit_step", "dot_general", "l1", CompiledPass::kForward, 0);
  program.Pause(1'000'000);
  for (int64_t run = 4; run <= 6; ++run) program.TrainStep(run);
  program.Pause(1'000'000);
  EXPECT_EQ(Kinds(StepsOf(program.Build())[0]), "ttttt");
}

TEST(XlaStepsTest, ProgramsWithoutProductsAreNone) {
  XlaProgram program;
  for (int64_t run = 1; run <= 6; run += 2) {
    program.TrainStep(run);
    program.Run("jit_metric", "reduce_sum", "metric:7", CompiledPass::kForward, run + 1);
  }
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttt");
}

TEST(XlaStepsTest, ValidationBetweenTraining) {
  XlaProgram program;
  int64_t run = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 3; ++i) program.TrainStep(++run);
    for (int i = 0; i < 2; ++i) program.Validate(++run);
  }
  const std::vector<StepTrack> tracks = StepsOf(program.Build());
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "tttvvtttvvtttvv");
}

}  // namespace
}  // namespace dlhook::analyzer
