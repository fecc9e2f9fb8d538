// Unwound stacks of calls, with Python frames woven in (stacks/call_stacks.h).
#ifndef DLHOOK_ANALYZER_PROFILE_NATIVE_STACKS_H_
#define DLHOOK_ANALYZER_PROFILE_NATIVE_STACKS_H_

#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/profile/profile.h"
#include "analyzer/stacks/call_stacks.h"

namespace dlhook::analyzer::inline profiles {

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

#endif  // DLHOOK_ANALYZER_PROFILE_NATIVE_STACKS_H_
