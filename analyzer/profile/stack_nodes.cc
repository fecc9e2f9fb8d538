// Stacks woven into the tree: see stack_nodes.h.
#include "analyzer/profile/stack_nodes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "analyzer/time/activity_labels.h"

namespace dlhook::analyzer::inline profiles {

FrameworkStacks::FrameworkStacks(const FrameworkStackOptions& options, Profile* profile)
    : model_(profile->model()), options_(options), profile_(*profile), rules_(model_) {}

PathIndex FrameworkStacks::PathOf(ScopeIndex scope) {
  if (scope == kNone || !options_.with_scopes) return kNoScopes;
  return paths_.IndexOf({PathOf(model_.scopes.parent[scope]), model_.scopes.look[scope]});  // kMaxOpenScopes at most
}

NodeIndex FrameworkStacks::Under(NodeIndex outer, CallIndex call) {
  return Under(outer, PathOf(model_.calls.ScopeOf(call)), model_.PythonStackOf(call));
}

NodeIndex FrameworkStacks::UnderScope(NodeIndex outer, ScopeIndex scope) {
  ScopeIndex around = scope;
  while (around != kNone && model_.scopes.look[around].stack == kNone) around = model_.scopes.parent[around];
  const NodeIndex node = Under(outer, PathOf(scope), around == kNone ? kNone : model_.scopes.look[around].stack);
  return options_.with_scopes ? node : AddScope(node, model_.scopes.look[scope].name);
}

NodeIndex FrameworkStacks::UnderGap(NodeIndex outer, const UnseenGap& gap) {
  const PathIndex path = PathOf(gap.around);
  const size_t frames = options_.with_python ? CommonFrames(gap.before, gap.after) : 0;
  if (path == kNoScopes && frames == 0) return outer;
  const auto [place, is_new] = woven_gaps_.try_emplace({outer, path, gap.before, gap.after}, kRoot);
  if (is_new) place->second = Weave(outer, path, frames == 0 ? kNone : gap.after, frames);
  return place->second;
}

NodeIndex FrameworkStacks::Under(NodeIndex outer, PathIndex path, StackIndex stack) {
  if (!options_.with_python) stack = kNone;
  if (path == kNoScopes && stack == kNone) return outer;
  const auto [place, is_new] = woven_.try_emplace({outer, uint64_t{path} << 32 | stack}, kRoot);
  if (is_new) {
    place->second = Weave(outer, path, stack, stack == kNone ? 0 : model_.python_stacks[stack].frames.size());
  }
  return place->second;
}

// Of the stack the outermost `count` frames.
NodeIndex FrameworkStacks::Weave(NodeIndex outer, PathIndex path, StackIndex stack, size_t count) {
  std::vector<PathIndex> chain;
  for (; path != kNoScopes; path = paths_[path].parent) chain.push_back(path);
  std::reverse(chain.begin(), chain.end());
  const size_t frames = stack == kNone ? 0 : model_.python_stacks[stack].frames.size();
  size_t done = 0;
  NodeIndex node = outer;
  const auto add_until = [&](size_t end) {
    for (; done < end; ++done) node = AddPython(node, model_.python_stacks[stack].frames[frames - 1 - done]);
  };
  for (PathIndex scope : chain) {
    add_until(std::max(done, std::min(count, CommonFrames(paths_[scope].look.stack, stack))));
    node = AddScope(node, paths_[scope].look.name);
  }
  add_until(count);
  return node;
}

size_t FrameworkStacks::CommonFrames(StackIndex a, StackIndex b) const {
  if (a == kNone || b == kNone) return 0;
  const std::vector<PythonFrame>& one = model_.python_stacks[a].frames;
  const std::vector<PythonFrame>& other = model_.python_stacks[b].frames;
  const auto differ =
      std::mismatch(one.rbegin(), one.rend(), other.rbegin(), other.rend(),
                    [](const auto& x, const auto& y) { return x.file == y.file && x.function == y.function; });
  return static_cast<size_t>(differ.first - one.rbegin());
}

NodeIndex FrameworkStacks::AddPython(NodeIndex node, const PythonFrame& frame) {
  const FunctionIndex function = profile_.Function({.kind = FrameKind::kPython,
                                                    .name = model_.names[frame.function],
                                                    .object = kPythonObject,
                                                    .file = model_.names[frame.file]});
  return profile_.Child(node, profile_.Frame({.function = function, .line = frame.line}));
}

NodeIndex FrameworkStacks::AddScope(NodeIndex node, NameIndex name) {
  const ActivityKind kind = rules_.NamesInput(name) ? ActivityKind::kDataLoading : ActivityKind::kScope;
  const std::string mark = options_.with_kinds ? absl::StrCat(" [", ActivityName(kind), "]") : "";
  const FunctionIndex function = profile_.Function(
      {.kind = FrameKind::kScope, .name = absl::StrCat(model_.names[name], mark), .object = "[framework]"});
  return profile_.Child(node, profile_.Frame({.function = function}));
}

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
