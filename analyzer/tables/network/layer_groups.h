// The rows of the table `layers`: layers, or what they are folded into.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/sample_split.h"

namespace dlhook::analyzer::inline tables {

// Of collective operations of libraries without calls (Gloo).
inline constexpr char kCommunicationLabel[] = "[communication]";

using GroupIndex = uint32_t;

struct LayerGroup {
  std::string model;
  std::string label;
  std::vector<LayerIndex> layers;  // ascending; empty without a layer and for `--by op`, `function`, `stack`
  bool is_sampled = false;         // a function that computes a layer, known from samples of CPU time
};

// A row, and the direction in it.
struct GroupPlace {
  GroupIndex group = kNone;  // kNone: not known
  LayerDirection direction = LayerDirection::kUnknown;
};

// Maps calls and scopes to rows.
class LayerGroups {
 public:
  // `depth`: of modules, names are truncated to that many parts (at 1, layer1.0.conv2 becomes layer1); 0: not at all.
  LayerGroups(const TraceModel& model, const Attribution& attribution, By by, int depth);

  const std::vector<LayerGroup>& groups() const { return groups_; }
  bool HasSeveralModels() const;
  GroupIndex OfCall(CallIndex call) const;
  GroupIndex OfScope(ScopeIndex scope) const;
  // kNone: the rows are not layers, nor what these are folded into.
  GroupIndex OfLayer(LayerIndex layer) const { return of_layer_.empty() ? kNone : of_layer_[layer]; }
  // `place`: from GpuPlaces.
  GroupIndex OfGpu(GpuIndex activity, const Place& place) const;
  GroupIndex OfGap(const UnseenGap& gap) const;
  GroupPlace OfPiece(const TimePiece& piece) const;
  // Where a thread computed in time that is not known better: in a function of a layer, a module, a function, a line.
  GroupPlace OfSample(size_t sample) const { return of_sample_.empty() ? GroupPlace() : of_sample_[sample]; }
  // Samples in code whose functions have no names, by "[library]": it may hide layers.
  const std::map<std::string, SampleSum>& nameless() const { return nameless_; }
  GroupIndex other_threads() const { return other_threads_; }  // for steps of a single thread
  GroupIndex communication() const { return communication_; }
  GroupIndex gpu_idle() const { return gpu_idle_; }
  GroupIndex gpu_blind() const { return gpu_blind_; }  // nothing is known of GPUs in these spans
  bool IsLayerGroup(GroupIndex group) const { return group < first_rest_; }

 private:
  GroupIndex Group(const std::string& model, const std::string& label);
  std::string LabelOf(const Layer& layer) const;
  void GroupLayers();
  void GroupOps();
  void GroupCalls();
  void GroupLines();
  void GroupSamples();
  GroupIndex OfStack(StackIndex stack, GroupIndex otherwise) const;
  GroupIndex OfGpuCall(CallIndex call) const;

  const TraceModel& model_;
  const Attribution& attribution_;
  const By by_;
  const int depth_;
  const std::vector<bool> is_collective_;  // by name
  std::set<std::string> no_models_;        // each is one group
  std::vector<LayerGroup> groups_;
  std::map<std::pair<std::string, std::string>, GroupIndex> known_;
  std::vector<GroupIndex> of_layer_, of_op_, of_name_, of_call_;
  // `--by line`: work without a layer still has a line.
  std::vector<GroupIndex> of_stack_;
  std::map<std::pair<StackIndex, StackIndex>, GroupIndex> of_gap_;
  std::vector<GroupPlace> of_sample_;
  std::map<std::string, SampleSum> nameless_;
  GroupIndex first_rest_ = 0, framework_ = 0, library_ = 0, profiler_ = 0, not_seen_ = 0, communication_ = 0,
             data_loading_ = 0, waiting_ = 0;
  GroupIndex other_threads_ = 0, unattributed_ = 0;
  GroupIndex gpu_unknown_ = 0, gpu_idle_ = 0, gpu_blind_ = 0;
};

}  // namespace dlhook::analyzer::tables
