// Table `layers`: sums, names and order of its rows for the training of a small network.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/peaks/peaks.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/tables.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/layers/linear_training.h"

namespace dlhook::analyzer {
namespace {

TraceModel Training(int steps, int validations = 0) {
  return LinearTraining({.steps = steps, .validations = validations});
}

std::vector<std::string> Labels(const Table& table, const std::string& column = "layer") {
  std::vector<std::string> labels;
  for (size_t row = 0; row < table.rows.size(); ++row) labels.push_back(Text(table, row, column));
  return labels;
}

absl::StatusOr<Table> RunLayers(const TraceModel& model, By by, int depth, std::optional<StepKind> steps) {
  TraceModel copy = model;
  const Choices choices = ResolveChoices(&copy);
  const RunTotals totals = ComputeTotals(copy);
  const LayerAnalysis analysis(copy);
  TableOptions options{.choices = &choices, .totals = &totals, .analysis = &analysis};
  options.by = by;
  options.layers_depth = depth;
  options.layers_of = steps;
  for (const TableKind& kind : TableKinds()) {
    if (kind.name == "layers") return kind.run(copy, options);
  }
  return absl::NotFoundError("layers");
}

Table LayersTableBy(const TraceModel& model, By by, int depth = 0, std::optional<StepKind> steps = std::nullopt) {
  const absl::StatusOr<Table> table = RunLayers(model, by, depth, steps);
  EXPECT_TRUE(table.ok()) << table.status();
  CheckShape(*table);
  return *table;
}

TEST(LayersTableTest, RowsAddUpToTheStepsExactly) {
  const TraceModel model = Training(8);
  const LayerAnalysis analysis(model);
  int64_t steps_ns = 0;
  for (const StepTrack& track : analysis.steps()) {
    for (const Step& step : track.steps) {
      if (step.kind == StepKind::kTraining && step.counts()) steps_ns += step.end_ns - step.start_ns;
    }
  }
  ASSERT_GT(steps_ns, 0);
  for (By by : {By::kLayer, By::kModule, By::kType, By::kOp, By::kLine}) {
    EXPECT_EQ(Sum(LayersTableBy(model, by), "wall_share"), steps_ns) << static_cast<int>(by);
  }
}

TEST(LayersTableTest, LayersStandInTheOrderOfTheForwardPassAndTheOptimizerAfterThem) {
  const Table table = RunPass("layers", Training(8));
  const std::vector<std::string> labels = Labels(table);
  ASSERT_GE(labels.size(), 4u);
  EXPECT_EQ(labels[0], "block.fc1");
  EXPECT_EQ(labels[1], "block.fc2");
  EXPECT_EQ(labels[2], "Net:[not seen]");  // between the two
  EXPECT_EQ(labels[3], "optimizer (SGD)");
  EXPECT_EQ(Text(table, 0, "matched_by"), "framework");
  EXPECT_EQ(Text(table, 0, "model"), "-");  // there is only one model
  EXPECT_EQ(Text(table, 3, "forward"), "-");
  EXPECT_GT(Integer(table, 3, "update"), 0);
}

TEST(LayersTableTest, DirectionsAddUpToBackwardAndCallsAreOfOneStep) {
  const Table table = RunPass("layers", Training(8));
  // For each linear layer: one product forward, two backward.
  EXPECT_DOUBLE_EQ(Real(table, 0, "calls"), 3);
  EXPECT_DOUBLE_EQ(Real(table, 0, "flops"), 3 * 2.0 * 120 * 4 * 256);
  EXPECT_EQ(Integer(table, 0, "forward"), Integer(table, 1, "forward"));
  EXPECT_GT(Integer(table, 0, "backward_data"), 0);
  EXPECT_GT(Integer(table, 0, "backward_weights"), 0);
  EXPECT_GE(Integer(table, 0, "backward"), Integer(table, 0, "backward_data") + Integer(table, 0, "backward_weights"));
  EXPECT_LE(Integer(table, 0, "forward") + Integer(table, 0, "backward"), Integer(table, 0, "time"));
}

TEST(LayersTableTest, ValidationHasRowsOfItsOwnWhenAsked) {
  const TraceModel model = Training(8, 6);
  const Table training = LayersTableBy(model, By::kLayer);
  EXPECT_EQ(Labels(training), Labels(LayersTableBy(Training(8), By::kLayer)));
  const std::string notes = absl::StrJoin(training.notes, "\n");
  EXPECT_NE(notes.find("6 validation steps of "), std::string::npos) << notes;

  const Table validation = LayersTableBy(model, By::kLayer, 0, StepKind::kValidation);
  EXPECT_EQ(Labels(validation)[0], "block.fc1");
  EXPECT_EQ(Labels(validation)[1], "block.fc2");
  EXPECT_EQ(Text(validation, 0, "step"), "validation");
  EXPECT_DOUBLE_EQ(Real(validation, 0, "calls"), 1);
  EXPECT_EQ(Text(validation, 0, "backward"), "-");
  int64_t validation_ns = 0;
  const LayerAnalysis analysis(model);
  for (const StepTrack& track : analysis.steps()) {
    for (const Step& step : track.steps) {
      if (step.kind == StepKind::kValidation && step.counts()) validation_ns += step.end_ns - step.start_ns;
    }
  }
  EXPECT_GT(validation_ns, 0);
  EXPECT_EQ(Sum(validation, "wall_share"), validation_ns);
  EXPECT_EQ(RunLayers(model, By::kLayer, 0, StepKind::kInference).status().message(),
            "no steady inference step in this run; it has steps of: training (8), validation (6)");
}

TEST(LayersTableTest, AModuleWithoutGradientsAndProductsIsNoModel) {
  const TraceModel model = LinearTraining({.steps = 8, .has_metric = true});
  const Table table = LayersTableBy(model, By::kLayer);
  const std::vector<std::string> labels = Labels(table);
  EXPECT_EQ(absl::c_count(labels, "Accuracy"), 1) << absl::StrJoin(labels, ", ");
  for (const std::string& name : Labels(table, "model")) EXPECT_EQ(name, "-");
}

TEST(LayersTableTest, ModulesFoldByDepth) {
  const TraceModel model = Training(8);
  EXPECT_EQ(Labels(LayersTableBy(model, By::kLayer, 1), "module")[0], "block");
  EXPECT_EQ(Labels(LayersTableBy(model, By::kModule, 2), "module")[0], "block.fc1");
  EXPECT_EQ(Labels(LayersTableBy(model, By::kType), "type")[0], "linear");
  EXPECT_EQ(Labels(LayersTableBy(model, By::kLine), "line")[0], "net.py:10");
  const std::vector<std::string> ops = Labels(LayersTableBy(model, By::kOp), "op");
  EXPECT_NE(std::find(ops.begin(), ops.end(), "gemm"), ops.end());
  EXPECT_NE(std::find(ops.begin(), ops.end(), "AddmmBackward0"), ops.end());
}

// Each product takes 100 ns on the GPU and starts at the earliest 5 ns after its call began, so that the GPU falls
// behind the host.
TraceModel GpuTraining(int steps, double part = 1) {  // of the run, in which the GPU was measured
  TraceModel model = Training(steps);
  const auto end_ns = static_cast<int64_t>(part * static_cast<double>(model.end_ns));
  std::vector<TestGpuWork> work;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const int64_t start_ns = model.calls.start_ns[call];
    if (start_ns < end_ns)
      work.push_back({.start_ns = start_ns + 5, .duration_ns = 100, .asked_by_ns = start_ns, .kernel = "gemm"});
  }
  work.push_back({.start_ns = model.end_ns / 2, .duration_ns = 33});  // the request is not known
  AddGpuWork(work, &model);
  return model;
}

TEST(LayersTableTest, GpuTimesOfLayersAreThoseOfWhatTheirCallsAskedFor) {
  const Table table = RunPass("layers", GpuTraining(8));
  for (size_t row : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(Integer(table, row, "gpu_forward"), 100);
    EXPECT_EQ(Integer(table, row, "gpu_backward"), 200);
    EXPECT_EQ(Integer(table, row, "gpu_backward_data") + Integer(table, row, "gpu_backward_weights"), 200);
    EXPECT_EQ(Integer(table, row, "gpu_time"), 300);
    EXPECT_DOUBLE_EQ(Real(table, row, "kernels"), 3);
    EXPECT_DOUBLE_EQ(Real(table, row, "gpu_rate"), 2.0 * 120 * 4 * 256 / 100);
    EXPECT_GT(Integer(table, row, "forward"), 0);  // the host's time is shown next to it
  }
  EXPECT_EQ(Text(table, 0, "layer"), "block.fc1");
}

// One product of one of n steps takes 30 ns more: the mean's standard error is 30 ns / n.
TEST(LayersTableTest, MeansOfARunInWindowsHaveTheirError) {
  TraceModel model = GpuTraining(10);
  EXPECT_EQ(FindColumn(RunPass("layers", model), "gpu_error"), std::nullopt);
  model.scope_windows = {{0, model.start_ns, model.end_ns + 1}};
  const Table equal = RunPass("layers", model);
  EXPECT_EQ(Real(equal, 0, "gpu_error"), 0);
  EXPECT_EQ(Real(equal, 0, "time_error"), 0);
  int64_t steps = 0;
  Step middle;
  const LayerAnalysis analysis(model);
  ASSERT_EQ(analysis.steps().size(), 1u);
  for (const Step& step : analysis.steps().front().steps) {
    if (step.counts() && ++steps == 4) middle = step;
  }
  GpuIndex longer = 0;
  while (model.gpu.start_ns[longer] < middle.start_ns) ++longer;
  model.gpu.end_ns[longer] += 30;
  const Table table = RunPass("layers", model);
  const auto n = static_cast<double>(steps);
  EXPECT_NEAR(Real(table, 0, "gpu_error"), 100 * 30 / (300 * n + 30), 1e-9);
  EXPECT_EQ(Real(table, 1, "gpu_error"), 0);
}

// 2 x 120 x 4 x 256 FLOPs at 32 x 128 x 2 x 1 GHz: 30 ns of each product's 100 ns.
TEST(LayersTableTest, UtilizationIsTheLeastTimeAtThePeakOverTheTime) {
  TraceModel model = GpuTraining(8);
  for (Op& op : model.ops) op.on_gpu = true;
  model.gpu_devices.front().multiprocessors = 32;
  model.gpu_devices.front().clock_khz = 1'000'000;
  const Peaks peaks(model, nullptr);
  const Table table = RunPass("layers", model, &peaks);
  for (size_t row : {size_t{0}, size_t{1}}) {
    EXPECT_DOUBLE_EQ(Real(table, row, "mfu"), 30);
    EXPECT_DOUBLE_EQ(Real(table, row, "hfu"), 30);
  }
  const std::string notes = absl::StrJoin(table.notes, "\n");
  EXPECT_NE(notes.find("is at least 23 %, of 8 TFLOP/s for f32."), std::string::npos) << notes;  // 6 x 30 of 780 ns
  EXPECT_NE(notes.find(": 0.001475 GFLOP, 99 % of"), std::string::npos) << notes;  // one activity has no call

  for (Op& op : model.ops) op.types = "f8_e4m3";
  const Table unknown = RunPass("layers", model, &peaks);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(At(unknown, 0, "mfu")));
  EXPECT_NE(absl::StrJoin(unknown.notes, "\n").find("is not known, because no peak of the GPU is known for f8_e4m3"),
            std::string::npos);
}

TEST(LayersTableTest, GpuTimesAddUpExactly) {
  const TraceModel model = GpuTraining(8);
  const LayerAnalysis analysis(model);
  int64_t steps_ns = 0, requested_ns = 0;
  for (const StepTrack& track : analysis.steps()) {
    for (const Step& step : track.steps) {
      if (step.kind != StepKind::kTraining || !step.counts()) continue;
      steps_ns += step.end_ns - step.start_ns;
      for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
        const CallIndex call = model.gpu.call[activity];
        const int64_t at_ns = call == kNone ? model.gpu.start_ns[activity] : model.calls.start_ns[call];
        if (step.start_ns <= at_ns && at_ns < step.end_ns) requested_ns += model.gpu.DurationNs(activity);
      }
    }
  }
  for (By by : {By::kLayer, By::kModule, By::kType, By::kOp, By::kLine, By::kFunction, By::kStack}) {
    const Table table = LayersTableBy(model, by);
    EXPECT_EQ(Sum(table, "gpu_total"), requested_ns) << static_cast<int>(by);
    EXPECT_EQ(Sum(table, "gpu_share"), steps_ns) << static_cast<int>(by);
    EXPECT_EQ(Sum(table, "wall_share"), steps_ns) << static_cast<int>(by);
  }
}

TEST(LayersTableTest, TimeInWhichGpusWereNotMeasuredIsNotIdle) {
  TraceModel model = GpuTraining(8);
  const auto share = [](const Table& table, const std::string& layer) {
    return Integer(table, RowWhere(table, {{"layer", layer}}), "gpu_share");
  };
  const Table before = RunPass("layers", model);
  EXPECT_TRUE(RowsWhere(before, {{"layer", "[GPU not measured]"}}).empty());
  model.gpu_windows = {{0, model.start_ns, model.end_ns / 2, GpuTimeSource::kCupti, ""},
                       {0, model.end_ns / 2, model.end_ns, GpuTimeSource::kNone, "the program uses CUPTI itself"}};
  const Table after = RunPass("layers", model);
  EXPECT_GT(share(after, "[GPU not measured]"), 0);
  EXPECT_EQ(share(after, "[GPU idle]") + share(after, "[GPU not measured]"), share(before, "[GPU idle]"));
  TraceModel half = GpuTraining(8, 0.5);
  half.gpu_windows = model.gpu_windows;
  EXPECT_EQ(Integer(RunPass("layers", half), 0, "gpu_time"), 300);  // over the steps that were measured
}

TEST(LayersTableTest, ARunWithoutLayersSaysSo) {
  ModelBuilder builder;
  builder.Call(builder.AddOp(GemmDefinition(5, 5, 5, "NN")), 0, 10);
  const Table table = RunPass("layers", builder.Build());
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(table.notes.size(), 1u);
}

}  // namespace
}  // namespace dlhook::analyzer
