// Layers and steps of programs that XLA compiled, from their operations in windows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/layers/framework/framework_links.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/xla_builder.h"
#include "analyzer/steps/phases.h"
#include "tests/analyzer/builders/gpu_definitions.h"
#include "tests/analyzer/builders/gpu_model.h"
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
      ops.push_back({program, "i", "fusion", primitive, layer, "", !layer.empty(), pass});
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

TEST(XlaStepsTest, AnExecutionOfPlainArithmeticIsAStep) {
  XlaProgram program;
  for (int64_t run = 1; run <= 5; ++run) {
    program.Run("jit_step", "broadcast", "l2", CompiledPass::kBackward, run);
    program.Run("jit_step", "mul", "l1", CompiledPass::kForward, run);
    program.Run("jit_step", "tanh", "l2", CompiledPass::kForward, run);
    program.Run("jit_step", "mul", "l1", CompiledPass::kBackward, run);
    program.Run("jit_step", "add", "update (train.py:9)", CompiledPass::kUpdate, run);
  }
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
    program.Run("jit_dot_general", "dot_general", "", CompiledPass::kForward, run + 10);  // an eager operation
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

// ---- On GPUs: by XLA's NVTX ranges

constexpr char kModule[] = "TSL: XlaModule:#prefix=jit(step),hlo_module=jit_step,program_id=7#";

class ProgramWithRanges {
 public:
  void Range(const std::string& name, int64_t start_ns, int64_t duration_ns, ThreadIndex thread = 0) {
    builder_.Scope(name, ScopeKind::kNvtxRange, start_ns, duration_ns, thread);
  }

  void Thunk(const std::string& fields) { Range("TSL: Thunk:#" + fields + ",unique_hlo_op_id=4#", now_ns_ += 100, 90); }

  void TrainStep() {
    Range(kModule, now_ns_ + 50, 700);
    Thunk("name=jit(step)/jvp(l1)/conv_general_dilated[a=1,b=2],hlo_op=cudnn-conv.4");
    Thunk("name=jit(step)/jvp(l2)/dot_general,hlo_op=gemm_fusion_dot.1");
    Thunk("hlo_op=command_buffer_7");
    Thunk("name=jit(step)/transpose(jvp(l2))/dot_general,hlo_op=gemm_fusion_dot.2");
    Thunk("name=jit(step)/transpose(jvp(l1))/conv_general_dilated,hlo_op=cudnn-conv.5");
    Thunk("name=jit(step),hlo_op=fusion.6");
    now_ns_ += 1000;
  }

  TraceModel Build() {
    TraceModel model = builder_.Build();
    NameTable names(&model);
    ReadXlaRanges(0, XlaProfiles(), &names, &model);
    return model;
  }

  ModelBuilder& builder() { return builder_; }

 private:
  ModelBuilder builder_;
  int64_t now_ns_ = 10'000;
};

std::string NameAndLayer(const TraceModel& model, const Attribution& attribution, ScopeIndex scope) {
  const LayerIndex layer = attribution.of_scope[scope].layer;
  return absl::StrCat(model.names[model.scopes.look[scope].name], " | ",
                      layer == kNone ? "-" : attribution.layers[layer].name);
}

TEST(XlaRangesTest, OperationsHaveTheLayersOfTheirNames) {
  ProgramWithRanges program;
  program.TrainStep();
  const TraceModel model = program.Build();
  const Attribution attribution = AttributeByFramework(model);
  ASSERT_EQ(model.scopes.size(), 7u);
  EXPECT_EQ(NameAndLayer(model, attribution, 0), "XLA runs jit_step | compiled by XLA: jit_step");
  EXPECT_EQ(NameAndLayer(model, attribution, 1), "conv_general_dilated[a=1,b=2] | l1");
  EXPECT_EQ(NameAndLayer(model, attribution, 2), "dot_general | l2");
  EXPECT_EQ(NameAndLayer(model, attribution, 3), "CUDA graph | compiled by XLA: jit_step");
  EXPECT_EQ(NameAndLayer(model, attribution, 6), "fusion | compiled by XLA: jit_step");
  EXPECT_EQ(attribution.of_scope[2].direction, LayerDirection::kForward);
  EXPECT_EQ(attribution.of_scope[4].direction, LayerDirection::kBackward);
  EXPECT_EQ(attribution.layers[attribution.of_scope[1].layer].type, "convolution");
}

TEST(XlaRangesTest, ARunIsAStep) {
  ProgramWithRanges program;
  // A program that only copies is none.
  program.Range("TSL: XlaModule:#hlo_module=jit_copy,program_id=2#", 1000, 700);
  program.Range("TSL: Thunk:#name=jit(copy)/copy,hlo_op=copy.1#", 1100, 500);
  trace::OpDefinition copy;
  copy.set_family("cublas");
  program.builder().Call(program.builder().AddOp(copy), 1200, 100);
  for (int step = 0; step < 5; ++step) program.TrainStep();
  TraceModel model = program.Build();
  model.compiled_ops[0].pass = CompiledPass::kForward;  // as its program would tell
  const std::vector<StepTrack> tracks = StepsOf(model);
  EXPECT_GE(tracks[0].steps[0].start_ns, 10'000);
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttttt");
  for (const Step& step : tracks[0].steps) EXPECT_EQ(Phases(step), "forward backward");
}

// The first run makes the graph's nodes, the others launch it. One of them changes a node before.
TEST(XlaRangesTest, AGraphHasTheWorkOfItsNodes) {
  ProgramWithRanges program;
  ModelBuilder& builder = program.builder();
  const OpIndex node = builder.AddOp(TimedDefinition("cuGraphAddNode_v2", "cuda_graph"));
  const OpIndex launch = builder.AddOp(TimedDefinition("cuGraphLaunch", "cuda_graph"));
  const std::vector<std::string> kOps = {"jvp(l1)/dot_general,hlo_op=d.1", "transpose(jvp(l1))/dot_general,hlo_op=d.2",
                                         "jvp(l2)/dot_general,hlo_op=d.3", "transpose(jvp(l2))/dot_general,hlo_op=d.4"};
  const auto thunk = [](const std::string& op) { return absl::StrCat("TSL: Thunk:#name=jit(step)/", op, "#"); };
  std::vector<TestGpuWork> work;
  program.Range(kModule, 0, 900);
  for (int i = 0; i < 4; ++i) {
    program.Range(thunk(kOps[i]), 100 * i + 10, 50);
    builder.Call(node, 100 * i + 20, 30);
  }
  for (int64_t run = 0; run < 5; ++run) {
    const int64_t start_ns = 1000 * run;
    if (run > 0) program.Range(kModule, start_ns, 900);
    program.Range("TSL: Thunk:#hlo_op=command_buffer_7#", start_ns + 500, 300);
    if (run == 3) program.Range(thunk(kOps[0]), start_ns + 510, 50);
    builder.Call(launch, start_ns + 600, 100);
    for (const int i : {0, 2, 3, 1}) {
      work.push_back({.start_ns = start_ns + 700 + static_cast<int64_t>(work.size() % 4) * 10,
                      .duration_ns = 5,
                      .asked_by_ns = start_ns + 600,
                      .kernel = "d",
                      .graph = 1,
                      .captured_by_ns = 100 * i + 20});
    }
  }
  TraceModel model = program.Build();
  AddGpuWork(work, &model);
  const std::vector<StepTrack> tracks = StepsOf(model);
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttttt");
  for (size_t step = 1; step < 5; ++step) EXPECT_EQ(Phases(tracks[0].steps[step]), "forward backward") << step;
}

// An algorithm is tried on another thread while the program is compiled.
TEST(XlaRangesTest, TrialsAreCompilationAndNoSteps) {
  ProgramWithRanges program;
  program.builder().AddThread();
  trace::OpDefinition product;
  product.set_family("cublas");
  const OpIndex op = program.builder().AddOp(product);
  program.builder().model().ops[op].direction = Direction::kForward;
  program.Range("TSL: XlaCompile:#module=jit_step#", 0, 9000);
  program.Range("TSL: XlaPass:#name=dce,module=jit_step,program_id=7#", 100, 100);
  for (int trial = 0; trial < 8; ++trial) {
    program.Range("TSL: XlaModule:#hlo_module=cudnn-conv.4#", 1000 * trial + 100, 500, 1);
    program.Range("TSL: Thunk:#hlo_op=cudnn-conv.4#", 1000 * trial + 200, 300, 1);
    program.builder().Call(op, 1000 * trial + 300, 100, 1);
  }
  program.builder().Call(op, 9000, 100, 1);  // between its ranges
  for (int step = 0; step < 3; ++step) program.TrainStep();
  const TraceModel model = program.Build();
  const Attribution attribution = AttributeByFramework(model);
  const CallIndex between = static_cast<CallIndex>(model.calls.size() - 1);
  ASSERT_EQ(model.calls.ScopeOf(between), kNone);
  EXPECT_EQ(attribution.layers[attribution.of_call[between].layer].name, "compilation (XLA)");
  EXPECT_EQ(NameAndLayer(model, attribution, 1), "XLA compiles jit_step: dce | compilation (XLA)");
  const ScopeIndex trial = model.calls.ScopeOf(0);
  EXPECT_EQ(NameAndLayer(model, attribution, trial), "XLA tries cudnn-conv.4 | compilation (XLA)");
  const std::vector<StepTrack> tracks = StepsOf(model);
  ASSERT_EQ(tracks.size(), 1u);
  EXPECT_EQ(Kinds(tracks[0]), "ttt");
}

}  // namespace
}  // namespace dlhook::analyzer
