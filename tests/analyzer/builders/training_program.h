// Scopes of a training loop as PyTorch's observers report them, written step by step, with their layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"
#include "tests/analyzer/builders/model_builder.h"

namespace dlhook::analyzer {

// Everything is sequential, on one thread at a time: scopes of 100 ns, after pauses of 10 ns, and in each layer's scope
// a call of 60 ns.
class TrainingProgram {
 public:
  // A network of `layers` layers, named MODEL, with convolutions of shapes of its own, in modules whose names begin so.
  int AddModel(const std::string& name, int layers, const std::string& modules = "features.");

  void Input(ThreadIndex thread = 0);
  void ZeroGrad(ThreadIndex thread = 0);
  // `grad`: sequence numbers are recorded and kept for the backward pass.
  void Forward(int model, bool grad = true, int64_t batch = 8, ThreadIndex thread = 0);
  // The same by operators that make no nodes: they carry the number of the next one.
  void Measure(int model);
  void Loss(bool grad = true, ThreadIndex thread = 0);
  // For everything that ran forward with `grad` since the last one.
  void Backward(ThreadIndex thread = 0);
  void Update(const std::string& optimizer = "SGD", StackIndex stack = kNone, ThreadIndex thread = 0);
  void Other(const std::string& name = "aten::item", ThreadIndex thread = 0);
  void Pause(int64_t ns) { now_ns_ += ns; }
  // From here on ops, nodes and ranges record no scopes, as with a light tap between windows; updates do. `slow`: the window that
  // ends here is that of a slow step.
  void RecordScopes(bool recorded, bool slow = false);

  int64_t now_ns() const { return now_ns_; }
  ModelBuilder& builder() { return builder_; }

  TraceModel Build(int64_t wall_ns = 0);
  // For the model that was built last.
  const Attribution& attribution() const { return attribution_; }
  std::vector<StepTrack> Steps();

 private:
  struct Network {
    std::string name;
    std::vector<LayerIndex> layers;
  };
  struct Run {
    LayerIndex layer;
    int64_t link;
    int64_t batch;
  };
  void Scope(const std::string& name, ScopeKind kind, int64_t duration_ns, ThreadIndex thread, int64_t link,
             StackIndex stack, Place place);
  void Work(Place place, int64_t batch, int64_t link, const std::string& name, ScopeKind kind, ThreadIndex thread);

  ModelBuilder builder_;
  Attribution attribution_;
  std::vector<Network> networks_;
  LayerIndex loss_ = kNone;
  std::vector<Run> pending_;
  int64_t now_ns_ = 0;
  int64_t next_link_ = 0;
  bool records_ = true;
  int64_t window_start_ns_ = 0;
  std::map<std::pair<ThreadIndex, int64_t>, Place> scope_places_;
  std::map<std::pair<ThreadIndex, int64_t>, Place> call_places_;
};

// "training", "validation" … of each step, in one line.
std::string Kinds(const StepTrack& track);
// "input forward backward update" of a step.
std::string Phases(const Step& step);

}  // namespace dlhook::analyzer
