// Stacks of calls without native frames, of scopes and of gaps: Python frames, with the scopes of the framework's operators in between.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/profile/profile.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/time/scope_paths.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline profiles {

struct FrameworkStackOptions {
  bool with_python = true;
  bool with_scopes = true;
  bool with_kinds = false;  // the names of scopes end in what kind of activity they are
};

// Caches results: `profile` must outlive it.
//
// A scope is placed where its own Python stack (at its start) diverges from that of the call: main, fit,
// [Optimizer.step#SGD.step], SGD.step, [aten::add_]. Frames are compared by function, because the line of an active
// function changes. Scopes keep their order, whatever their stacks are; one without a stack is placed directly inside
// the scope around it.
class FrameworkStacks {
 public:
  FrameworkStacks(const FrameworkStackOptions& options, Profile* profile);

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
  const FrameworkStackOptions options_;
  Profile& profile_;
  const ActivityRules rules_;
  RecurringKeys<ScopePath> paths_;
  absl::flat_hash_map<std::pair<NodeIndex, uint64_t>, NodeIndex> woven_;
  absl::flat_hash_map<std::tuple<NodeIndex, PathIndex, StackIndex, StackIndex>, NodeIndex> woven_gaps_;
};

// Unwound stacks of calls, with Python frames woven in (stacks/call_stacks.h).
struct NativeStackOptions {
  bool with_python = true;
  bool with_plumbing = false;  // functions that only forward a call
};

// Caches results: `profile` must outlive it.
class NativeStacks {
 public:
  NativeStacks(const NativeStackOptions& options, Profile* profile);

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
  const NativeStackOptions options_;
  Profile& profile_;
  CallStacks stacks_;
  Limit steps_{"frames around calls in calls", kMaxProfileSteps};
  absl::flat_hash_map<std::tuple<NodeIndex, FrameIndex, StackIndex>, NodeIndex> known_;
};

}  // namespace dlhook::analyzer::profiles
