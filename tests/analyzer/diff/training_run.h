// Runs for tests of diffs: a training loop with given layers, times and noise, and its analysis.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/choices.h"
#include "analyzer/diff/diff_runs.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer {

// Per pass one framework scope of the given time, half of which is a library call; before the forward call `reorders`
// reorders of 1 us.
struct LayerSpec {
  std::string name;
  int64_t forward_ns = 100000;
  int64_t backward_ns = 200000;
  std::string implementation = "jit:avx512";
  int channels = 16;
  int reorders = 0;
  int every = 1;  // in each so many-th step only
  std::string type = "convolution";
  bool calls_library = true;  // or the framework computes it itself
  int small_ops = 0;          // after the forward scope: scopes of the same name of 3 us
  int64_t gpu_ns = 0;         // GPU work of each of its calls; 0: none
};

struct RunSpec {
  std::vector<LayerSpec> layers;
  int steps = 90;
  double jitter = 0.02;     // relative standard deviation of each time
  double pace = 1;          // factor for everything in the run …
  double library_pace = 1;  // … and an additional one for its library calls
  unsigned seed = 1;
  int batch = 8;
  int other_batch = 0;         // of each second step; 0: the same
  bool batch_is_rows = false;  // of products
  StepKind kind = StepKind::kTraining;
  int interrupted_every = 0;  // one step in this many takes ten times as long; 0: none
  std::string dtype = "f32";
  std::string format = "abcd";  // of activations
  std::string optimizer;        // "SGD": its update ends each step; empty: none
  int updates = 1;              // so many times
  bool is_compiled = false;     // each step runs a region of torch.compile
  std::string loader;           // "_SingleProcessDataLoaderIter"
  int products = 0;             // matrix products per step besides the layers
  int micro_steps = 1;
  int validations = 0;  // validation steps after each step …
  int batch_of_validation = 0;
  bool makes_data = false;  // an operation before each of them
  uint32_t line = 0;        // of the program, that all of it runs at; 0: not known
  int64_t python_ns = 0;    // at the end of each step, outside all scopes; running …
  int64_t sleep_ns = 0;     // … and not
  int64_t waiting_ns = 0;   // per step, for a processor that another program uses …
  int wanting = 0;          // … or so many threads of its own, which want one all the time; 0: nobody looked at them
  int threads = 0;          // of the process; 0: no load was sampled
  bool of_thread = false;   // the steps are known to be those of the first thread
  std::map<std::string, std::string> settings;
  std::string library_build = "A";
  std::string network;  // of its steps
};

// "features.0" … convolutions of equal cost.
std::vector<LayerSpec> Layers(int count);

class TrainingRun {
 public:
  explicit TrainingRun(const RunSpec& spec);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  AnalyzedRun analyzed() const;
  TraceModel& model() { return model_; }
  const LayerAnalysis& analysis() const { return *analysis_; }

 private:
  TraceModel model_;
  Choices choices_;
  RunTotals totals_;
  std::unique_ptr<const LayerAnalysis> analysis_;
};

// In the order of the command line.
RunsDiff Diff(const std::vector<const TrainingRun*>& base, const std::vector<const TrainingRun*>& new_side,
              const std::vector<std::string>& tables = {"layers", "work"}, std::vector<OwnFinding> own_findings = {});
RunsDiff Diff(const TrainingRun& base, const TrainingRun& new_side,
              const std::vector<std::string>& tables = {"layers", "work"});
RunsDiff Diff(const RunSpec& base, const RunSpec& new_side,
              const std::vector<std::string>& tables = {"layers", "work"});

const Table& TableOf(const RunsDiff& diff, const std::string& name);
// The sentence; the verdict on the step.
std::string Sentence(const RunsDiff& diff);
std::string StepVerdict(const RunsDiff& diff);

}  // namespace dlhook::analyzer
