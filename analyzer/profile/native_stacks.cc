// Adds woven stacks to the tree: see native_stacks.h.
#include "analyzer/profile/native_stacks.h"

#include <algorithm>

namespace dlhook::analyzer::inline profiles {

NativeStacks::NativeStacks(const NativeStackOptions& options, Profile* profile)
    : model_(profile->model()), options_(options), profile_(*profile), stacks_(profile->model()) {}

NodeIndex NativeStacks::Under(NodeIndex outer, CallIndex call) {
  return UnderSample(outer, model_.calls.NativeStackOf(call), model_.PythonStackOf(call));
}

NodeIndex NativeStacks::UnderSample(NodeIndex outer, FrameIndex frame, StackIndex python) {
  const auto [place, is_new] = known_.try_emplace({outer, frame, python}, kRoot);
  if (!is_new) return place->second;
  const std::vector<ProfileFrameIndex> frames = FramesOf(frame, python);
  steps_.Take(profile_.nodes()[outer].depth);
  NodeIndex node = outer;
  for (size_t i = FramesInCommon(outer, frames); i < frames.size(); ++i) node = profile_.Child(node, frames[i]);
  return place->second = node;
}

// How many of `frames` the stack of `outer` also has: by function, because the line of an active function changes.
size_t NativeStacks::FramesInCommon(NodeIndex outer, const std::vector<ProfileFrameIndex>& frames) const {
  size_t common = 0;
  for (NodeIndex node : profile_.PathTo(outer)) {
    const FunctionIndex function = profile_.FunctionOf(node);
    const FrameKind kind = profile_.functions()[function].kind;
    if (kind != FrameKind::kPython && kind != FrameKind::kNative && kind != FrameKind::kNote) continue;
    if (common == frames.size() || profile_.frames()[frames[common]].function != function) break;
    ++common;
  }
  return common;
}

std::vector<ProfileFrameIndex> NativeStacks::FramesOf(FrameIndex frame, StackIndex python) {
  std::vector<ProfileFrameIndex> frames;
  const absl::Span<const StackEntryIndex> entries = stacks_.OfSample(frame, python);
  const absl::Span<const FrameIndex> native = stacks_.FramesOfSample(frame, python);
  for (size_t i = 0; i < entries.size(); ++i) {
    const StackEntry& entry = stacks_.entry(entries[i]);
    if (entry.kind == StackEntry::Kind::kPython && !options_.with_python) continue;
    if (entry.is_plumbing && !options_.with_plumbing) continue;
    const bool is_inlined = native[i] != kNone && i + 1 < entries.size() && native[i + 1] == native[i];
    frames.push_back(FrameOf(entry, native[i], is_inlined));
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

ProfileFrameIndex NativeStacks::FrameOf(const StackEntry& entry, FrameIndex native, bool is_inlined) {
  const bool is_python = entry.kind == StackEntry::Kind::kPython;
  const bool is_cut = entry.kind == StackEntry::Kind::kCut;
  const FrameKind kind = is_python ? FrameKind::kPython : is_cut ? FrameKind::kNote : FrameKind::kNative;
  const bool is_folded = entry.full_function != entry.function;
  return profile_.Frame({.function = profile_.Function({.kind = kind,
                                                        .name = entry.function,
                                                        .object = is_python ? kPythonObject : entry.object,
                                                        .file = entry.file,
                                                        .full_name = is_folded ? entry.full_function : ""}),
                         .line = entry.line,
                         .native = native,
                         .is_inlined = is_inlined});
}

}  // namespace dlhook::analyzer::profiles
