// A training loop with given layers, times and noise: see training_run.h.
#include "tests/analyzer/diff/training_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/steps/compared_steps.h"
#include "tests/analyzer/builders/gpu_model.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {
namespace {

constexpr int64_t kReorderNs = 1000;
constexpr int64_t kSmallOpNs = 3000;

class Writer {
 public:
  explicit Writer(const RunSpec& spec) : spec_(spec), random_(spec.seed) {
    if (spec.line > 0) stack_ = builder_.AddStack({{"/home/u/train.py", "<module>", spec.line}});
    for (const LayerSpec& layer : spec.layers) {
      Layer made;
      made.name = layer.name;
      made.type = layer.type;
      attribution_.layers.push_back(made);
    }
  }

  void Write() {
    if (spec_.of_thread) track_.thread = 0;
    for (int step = 0; step < spec_.steps; ++step) {
      Step made;
      made.start_ns = now_ns_;
      made.kind = spec_.kind;
      made.model = spec_.network;
      made.has_scopes = true;
      made.batch = spec_.other_batch > 0 && step % 2 == 1 ? spec_.other_batch : spec_.batch;
      made.batch_is_rows = spec_.batch_is_rows;
      const bool is_interrupted = spec_.interrupted_every > 0 && step % spec_.interrupted_every == 1;
      made.micro_steps = spec_.micro_steps;
      made.samples = made.batch * spec_.micro_steps;
      if (!spec_.loader.empty()) Range("enumerate(DataLoader)#" + spec_.loader + ".__next__");
      for (int i = 0; i < spec_.micro_steps; ++i) {
        Passes(LayerDirection::kForward);
        for (int product = 0; product < spec_.products; ++product) Product();
        Passes(LayerDirection::kBackwardData);
      }
      for (int i = 0; !spec_.optimizer.empty() && i < spec_.updates; ++i)
        Range("Optimizer.step#" + spec_.optimizer + ".step");
      if (spec_.is_compiled) Range("Torch-Compiled Region: 0/0");
      if (is_interrupted) now_ns_ += 9 * (now_ns_ - made.start_ns);
      const int64_t busy_ns = now_ns_ - made.start_ns + Jittered(spec_.python_ns);
      now_ns_ = made.start_ns + busy_ns + Jittered(spec_.sleep_ns) + Jittered(spec_.waiting_ns);
      made.end_ns = now_ns_;
      track_.steps.push_back(made);
      Sample(busy_ns);
      for (int i = 0; i < spec_.validations; ++i) Validate();
    }
  }

  // The context of the calls.
  void Describe(TraceModel& model) const {
    ProcessInfo& process = model.processes.front();
    process.settings.assign(spec_.settings.begin(), spec_.settings.end());
    process.mappings.push_back({.path = "/lib/libdnnl.so", .build_id = spec_.library_build});
    model.loads = loads_;
    for (int thread = 0; thread < spec_.wanting; ++thread) LookAtThread(static_cast<uint32_t>(100 + thread), model);
  }

  void LookAtThread(uint32_t tid, TraceModel& model) const {
    CounterSeries series = {.tid = tid, .kind = CounterKind::kStates};
    series.names = {model.AddName("running"), model.AddName("queued")};
    for (const LoadSample& sample : loads_) {
      const auto running = static_cast<uint64_t>(sample.cpu_ns / spec_.wanting);
      series.time_ns.push_back(sample.time_ns);
      series.value.insert(series.value.end(), {running, static_cast<uint64_t>(sample.time_ns) - running});
    }
    model.states.push_back(std::move(series));
  }

  ModelBuilder& builder() { return builder_; }
  // Times vary by a hundredth, after the requesting calls.
  std::vector<TestGpuWork> GpuWork(const TraceModel& model) const {
    std::vector<TestGpuWork> work;
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      if (attribution_.of_call[call].layer == kNone) continue;
      const LayerSpec& layer = spec_.layers[attribution_.of_call[call].layer];
      if (layer.gpu_ns == 0) continue;
      const int64_t duration_ns = layer.gpu_ns + static_cast<int64_t>(call * 37 % 100) * layer.gpu_ns / 10000;
      const int64_t requested_ns = model.calls.start_ns[call];
      work.push_back({.start_ns = requested_ns + 1000,
                      .duration_ns = duration_ns,
                      .asked_by_ns = requested_ns,
                      .kernel = "kernel of " + layer.name});
    }
    return work;
  }

  std::unique_ptr<LayerAnalysis> Analysis(const TraceModel& model) const {
    return std::make_unique<LayerAnalysis>(model, attribution_, Judged({track_}));
  }

 private:
  void Passes(LayerDirection direction) {
    for (LayerIndex layer = 0; layer < spec_.layers.size(); ++layer) {
      if (static_cast<int>(track_.steps.size()) % spec_.layers[layer].every == 0) Pass(layer, direction);
    }
  }

  void Range(const std::string& name, ScopeKind kind = ScopeKind::kUserRange) {
    builder_.Scope(name, kind, now_ns_, 1000, 0, -1, stack_);
    attribution_.of_scope.push_back({});
    now_ns_ += 1000;
  }

  void Product() {
    builder_.Call(builder_.AddOp(GemmDefinition(8, 10, 10, "NN")), now_ns_, 1000);
    attribution_.of_call.push_back({});
    now_ns_ += 1000;
  }

  void Validate() {
    if (spec_.makes_data) Range("aten::randn", ScopeKind::kFrameworkOp);
    Step made;
    made.start_ns = now_ns_;
    made.kind = StepKind::kValidation;
    made.has_scopes = true;
    made.batch = spec_.batch_of_validation;
    Passes(LayerDirection::kForward);
    made.end_ns = now_ns_;
    track_.steps.push_back(made);
  }

  void Sample(int64_t busy_ns) {
    if (spec_.threads == 0) return;
    if (loads_.empty()) loads_.emplace_back();
    LoadSample sample = loads_.back();
    sample.time_ns = now_ns_;
    sample.cpu_ns += busy_ns;
    sample.waiting_ns += spec_.waiting_ns;
    sample.threads = static_cast<uint32_t>(spec_.threads);
    sample.runnable = static_cast<uint32_t>(spec_.wanting > 0 ? spec_.wanting : spec_.waiting_ns > 0 ? 4 : 1);
    sample.processors = 2;
    loads_.push_back(sample);
  }

  int64_t Jittered(int64_t ns) {
    if (ns == 0) return 0;
    std::normal_distribution<double> noise(1, spec_.jitter);
    return static_cast<int64_t>(std::max(0.1, noise(random_)) * static_cast<double>(ns) * spec_.pace);
  }

  void Pass(LayerIndex index, LayerDirection direction) {
    const LayerSpec& layer = spec_.layers[index];
    const bool is_forward = direction == LayerDirection::kForward;
    const int64_t duration_ns = Jittered(is_forward ? layer.forward_ns : layer.backward_ns);
    const auto call_ns = static_cast<int64_t>(spec_.library_pace * static_cast<double>(duration_ns) / 2);
    const int reorders = is_forward ? layer.reorders : 0;
    builder_.Scope(is_forward ? "aten::conv2d" : "ConvolutionBackward0", ScopeKind::kFrameworkOp, now_ns_,
                   call_ns + duration_ns / 2 + reorders * kReorderNs, 0, -1, stack_);
    attribution_.of_scope.push_back({index, direction});
    for (int i = 0; i < reorders; ++i) {
      Call(Reorder(layer), kReorderNs, {index, direction});
    }
    if (layer.calls_library) {
      Call(Convolution(layer, is_forward), call_ns, {index, direction});
    } else {
      now_ns_ += call_ns;
    }
    now_ns_ += duration_ns / 2;
    for (int i = 0; is_forward && i < layer.small_ops; ++i) {
      builder_.Scope("aten::conv2d", ScopeKind::kFrameworkOp, now_ns_, kSmallOpNs, 0, -1, stack_);
      attribution_.of_scope.push_back({index, direction});
      now_ns_ += kSmallOpNs;
    }
  }

  void Call(const std::string& line, int64_t duration_ns, Place place) {
    builder_.Call(builder_.AddOp(OneDnnDefinition(line)), now_ns_, duration_ns);
    attribution_.of_call.push_back(place);
    now_ns_ += duration_ns;
  }

  std::string Convolution(const LayerSpec& layer, bool is_forward) const {
    return absl::StrCat("onednn_verbose,v1,primitive,exec,cpu,convolution,", layer.implementation, ",",
                        is_forward ? "forward_training" : "backward_data", ",", Tensor("src"), " wei:", spec_.dtype,
                        "::blocked:abcd::f0 ", Tensor("dst"), ",,alg:convolution_direct,mb", std::max(spec_.batch, 1),
                        "_ic3oc", layer.channels, "_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,0.1");
  }
  std::string Tensor(const std::string& role) const {
    return absl::StrCat(role, ":", spec_.dtype, "::blocked:", spec_.format, "::f0");
  }
  static std::string Reorder(const LayerSpec& layer) {
    return absl::StrCat(
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
        "dst:f32::blocked:aBcd16b::f0,,,8x",
        layer.channels, "x32x32,0.1");
  }

  const RunSpec& spec_;
  std::mt19937 random_;
  ModelBuilder builder_;
  StackIndex stack_ = kNone;  // of all scopes
  Attribution attribution_;
  StepTrack track_;
  std::vector<LoadSample> loads_;
  int64_t now_ns_ = 0;
};

}  // namespace

std::vector<LayerSpec> Layers(int count) {
  std::vector<LayerSpec> layers;
  for (int i = 0; i < count; ++i) {
    LayerSpec& layer = layers.emplace_back();
    layer.name = absl::StrCat("features.", i);
    layer.channels = 16 + i;
  }
  return layers;
}

TrainingRun::TrainingRun(const RunSpec& spec) {
  Writer writer(spec);
  writer.Write();
  model_ = writer.builder().Build();
  writer.Describe(model_);
  AddGpuWork(writer.GpuWork(model_), &model_);
  choices_ = ResolveChoices(&model_);
  totals_ = ComputeTotals(model_);
  analysis_ = writer.Analysis(model_);
}

AnalyzedRun TrainingRun::analyzed() const {
  return {&model_, {.choices = &choices_, .totals = &totals_, .analysis = &*analysis_}};
}

RunsDiff Diff(const std::vector<const TrainingRun*>& base, const std::vector<const TrainingRun*>& new_side,
              const std::vector<std::string>& tables, std::vector<OwnFinding> own_findings) {
  std::vector<const TableKind*> kinds;
  for (const std::string& name : tables) {
    for (const TableKind& kind : ComparableTables()) {
      if (kind.name == name) kinds.push_back(&kind);
    }
  }
  EXPECT_EQ(kinds.size(), tables.size());
  const auto analyzed = [](const std::vector<const TrainingRun*>& runs) {
    std::vector<AnalyzedRun> side;
    for (const TrainingRun* run : runs) side.push_back(run->analyzed());
    return side;
  };
  absl::StatusOr<RunsDiff> diff = DiffRuns(analyzed(base), analyzed(new_side), kinds, std::move(own_findings));
  EXPECT_TRUE(diff.ok()) << diff.status();
  for (const Table& table : diff->tables) CheckShape(table);
  return *std::move(diff);
}

RunsDiff Diff(const TrainingRun& base, const TrainingRun& new_side, const std::vector<std::string>& tables) {
  return Diff(std::vector{&base}, std::vector{&new_side}, tables);
}

RunsDiff Diff(const RunSpec& base, const RunSpec& new_side, const std::vector<std::string>& tables) {
  return Diff(TrainingRun(base), TrainingRun(new_side), tables);
}

const Table& TableOf(const RunsDiff& diff, const std::string& name) {
  return *std::find_if(diff.tables.begin(), diff.tables.end(), [&](const Table& table) { return table.name == name; });
}

std::string Sentence(const RunsDiff& diff) { return diff.tables.front().title; }

std::string StepVerdict(const RunsDiff& diff) {
  const Table& verdict = diff.tables.front();
  return verdict.rows.empty() ? "equal" : Text(verdict, 0, "verdict");
}

}  // namespace dlhook::analyzer
