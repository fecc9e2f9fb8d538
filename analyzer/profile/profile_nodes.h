// Where calls, scopes, gaps and GPU work are in the tree of stacks, and their labels.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/profile/profile.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/profile/stack_nodes.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline profiles {

// What a sample's labels say.
struct SampleLabels {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;
  LayerIndex layer = kNone;
  LayerDirection direction = LayerDirection::kUnknown;
  PhaseKind phase = PhaseKind::kUnknown;
  const char* kind = "";  // the same pointer for the same kind
  OpIndex op = kNone;
  NameIndex scope = kNone;
  const std::string* step = nullptr;  // the name of its steps
  friend bool operator==(const SampleLabels&, const SampleLabels&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const SampleLabels& l) {
    return H::combine(std::move(hash), l.process, l.thread, l.layer, l.direction, l.phase, l.kind, l.op, l.scope,
                      l.step);
  }
  void Set(Place place) {
    layer = place.layer;
    direction = place.direction;
  }
};

class ProfileNodes {
 public:
  // `with_kinds`: names of frames end in what kind of activity they are.
  ProfileNodes(const TraceModel& model, const Attribution& attribution, const ProfileOptions& options, bool with_kinds,
               Profile* profile);

  bool IsChosen(CallIndex call) const { return is_chosen_[call]; }  // by the options' filters
  bool IsChosen(OpIndex op, LayerIndex layer) const;
  bool IsChosenLayer(LayerIndex layer) const;

  NodeIndex OfCall(CallIndex call);
  NodeIndex OfScope(ScopeIndex scope);
  NodeIndex OfGap(ProcessIndex process, ThreadIndex thread, const UnseenGap& gap);
  // What a sample interrupted; `outer`: the stack without any frame of it.
  NodeIndex OfSample(NodeIndex outer, size_t sample);
  NodeIndex Outer(ProcessIndex process, ThreadIndex thread, Place place);
  // Under the GPU, the stack of what asked for it.
  NodeIndex OfGpu(GpuIndex activity, Place place);
  NodeIndex OfGpuNote(GpuDeviceIndex device, const std::string& note);
  NodeIndex OfTotals(ThreadIndex thread, OpIndex op);
  NodeIndex OfNote(ProcessIndex process, const std::string& note);

  LabelsIndex Labels(const SampleLabels& labels);

 private:
  NodeIndex UnderGpu(GpuDeviceIndex device, Place place);
  NodeIndex CallIn(NodeIndex outer, CallIndex call);
  NodeIndex StackUnder(NodeIndex outer, bool has_parent, CallIndex call, FrameworkStacks& framework);
  NodeIndex Named(NodeIndex outer, FrameKind kind, const std::string& name);
  ProfileFrameIndex NamedFrame(FrameKind kind, const std::string& name);
  ProfileFrameIndex OpFrame(OpIndex op);
  ProfileFrameIndex FrameOfOp(OpIndex op, bool with_kind);
  ProfileLabels MakeLabels(const SampleLabels& labels) const;

  const TraceModel& model_;
  const Attribution& attribution_;
  const ProfileOptions& options_;
  const bool with_kinds_;
  Profile& profile_;
  FrameworkStacks framework_;
  FrameworkStacks of_gpu_;  // without kinds, which are those of the host's time
  NativeStacks native_;
  std::vector<ProfileFrameIndex> op_frames_;
  absl::flat_hash_map<std::pair<StackIndex, StackIndex>, ProfileFrameIndex> gap_frames_;  // by what comes before, after
  std::vector<bool> is_chosen_;                                                           // by call
  std::vector<NodeIndex> node_of_call_;
  absl::flat_hash_map<SampleLabels, LabelsIndex> labels_;
};

}  // namespace dlhook::analyzer::profiles
