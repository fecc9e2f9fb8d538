// Where calls, scopes, gaps and GPU work are in the tree of stacks, and their labels.
#pragma once

#include "analyzer/layers/attribution.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline profiles {

// Stacks of calls without native frames, of scopes and of gaps: Python frames, with the scopes of the framework's operators in between.
// Caches results.
//
// A scope is placed where its own Python stack (at its start) diverges from that of the call: main, fit,
// [Optimizer.step#SGD.step], SGD.step, [aten::add_]. Frames are compared by function, because the line of an active
// function changes. Scopes keep their order, whatever their stacks are; one without a stack is placed directly inside
// the scope around it.
class FrameworkStacks {
 public:
  // `with_kinds`: the names of scopes end in what kind of activity they are. All must outlive it.
  FrameworkStacks(const FrameChoice& choice, bool with_kinds, Profile* profile)
      : model_(profile->model()), choice_(choice), with_kinds_(with_kinds), profile_(*profile), rules_(model_) {}

  // The node of the stack of `call` inside `outer`, without the call itself.
  NodeIndex Under(NodeIndex outer, CallIndex call);
  // The same for time in a scope, and for time that is not seen, which lies under what its ends have in common.
  NodeIndex UnderScope(NodeIndex outer, ScopeIndex scope);
  NodeIndex UnderGap(NodeIndex outer, const UnseenGap& gap);

 private:
  PathIndex PathOf(ScopeIndex scope);
  NodeIndex Under(NodeIndex outer, PathIndex path, StackIndex stack);
  NodeIndex Weave(NodeIndex outer, PathIndex path, StackIndex stack, size_t count);
  NodeIndex AddPython(NodeIndex node, const PythonFrame& frame);
  NodeIndex AddScope(NodeIndex node, NameIndex name);
  size_t CommonFrames(StackIndex a, StackIndex b) const;  // counted from the outermost

  const TraceModel& model_;
  const FrameChoice& choice_;
  const bool with_kinds_;
  Profile& profile_;
  const ActivityRules rules_;
  RecurringKeys<ScopePath> paths_;
  absl::flat_hash_map<std::pair<NodeIndex, uint64_t>, NodeIndex> woven_;
  absl::flat_hash_map<std::tuple<NodeIndex, PathIndex, StackIndex, StackIndex>, NodeIndex> woven_gaps_;
};

// Unwound stacks of calls, with Python frames woven in (stacks/call_stacks.h). Caches results.
class NativeStacks {
 public:
  // Both must outlive it.
  NativeStacks(const FrameChoice& choice, Profile* profile)
      : model_(profile->model()), choice_(choice), profile_(*profile), stacks_(model_) {}

  // The node of the stack of `call` inside `outer`, without the call itself. A nested call is inside the outer call's
  // node: only the part of its stack that is further in is added.
  NodeIndex Under(NodeIndex outer, CallIndex call);
  // The same of a sample: with the function that it interrupted.
  NodeIndex UnderSample(NodeIndex outer, FrameIndex frame, StackIndex python);

 private:
  std::vector<ProfileFrameIndex> FramesOf(FrameIndex frame, StackIndex python);  // outermost first
  ProfileFrameIndex FrameOf(const StackEntry& entry, FrameIndex native, bool is_inlined);
  size_t FramesInCommon(NodeIndex outer, const std::vector<ProfileFrameIndex>& frames) const;

  const TraceModel& model_;
  const FrameChoice& choice_;
  Profile& profile_;
  CallStacks stacks_;
  Limit steps_{"frames around calls in calls", kMaxProfileSteps};
  absl::flat_hash_map<std::tuple<NodeIndex, FrameIndex, StackIndex>, NodeIndex> known_;
};

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
  bool IsChosen(OpIndex op, LayerIndex layer) const;                // kNone: no call, or in no layer
  bool IsChosenLayer(LayerIndex layer) const { return IsChosen(kNone, layer); }

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
