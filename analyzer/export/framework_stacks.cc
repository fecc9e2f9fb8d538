// Scopes between Python frames: see framework_stacks.h.
#include "analyzer/export/framework_stacks.h"

#include <algorithm>
#include <tuple>

namespace dlhook::analyzer::inline exports {

FrameworkStacks::FrameworkStacks(const FrameworkStackOptions& options, Profile* profile)
    : model_(profile->model()), options_(options), profile_(*profile), paths_{{0, kNone, kNone}} {
  if (options_.with_scopes) FindPaths();
}

void FrameworkStacks::FindPaths() {
  const ScopeColumns& scopes = model_.scopes;
  absl::flat_hash_map<std::tuple<PathIndex, NameIndex, StackIndex>, PathIndex> known;
  scope_path_.reserve(scopes.size());
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {  // parents precede their children
    const PathIndex parent = scopes.parent[scope] == kNone ? 0 : scope_path_[scopes.parent[scope]];
    const ScopePath path = {parent, scopes.name[scope], scopes.python_stack[scope]};
    const auto [place, is_new] =
        known.try_emplace({path.parent, path.name, path.stack}, static_cast<PathIndex>(paths_.size()));
    if (is_new) paths_.push_back(path);
    scope_path_.push_back(place->second);
  }
}

NodeIndex FrameworkStacks::Under(NodeIndex outer, CallIndex call) {
  const ScopeIndex scope = model_.calls.ScopeOf(call);
  const PathIndex path = scope == kNone || scope_path_.empty() ? 0 : scope_path_[scope];
  const StackIndex stack = options_.with_python ? model_.PythonStackOf(call) : kNone;
  if (path == 0 && stack == kNone) return outer;
  const auto [place, is_new] = woven_.try_emplace({outer, uint64_t{path} << 32 | stack}, kRoot);
  if (is_new) place->second = Weave(outer, path, stack);
  return place->second;
}

NodeIndex FrameworkStacks::Weave(NodeIndex outer, PathIndex path, StackIndex stack) {
  std::vector<PathIndex> chain;
  for (; path != 0; path = paths_[path].parent) chain.push_back(path);
  std::reverse(chain.begin(), chain.end());
  const size_t frames = stack == kNone ? 0 : model_.python_stacks[stack].frames.size();
  size_t done = 0;
  NodeIndex node = outer;
  const auto add_until = [&](size_t end) {
    for (; done < end; ++done) node = AddPython(node, model_.python_stacks[stack].frames[frames - 1 - done]);
  };
  for (PathIndex scope : chain) {
    add_until(std::max(done, CommonFrames(paths_[scope].stack, stack)));
    node = AddScope(node, paths_[scope].name);
  }
  add_until(frames);
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
  const FunctionIndex function =
      profile_.Function({.kind = FrameKind::kScope, .name = model_.names[name], .object = "[framework]"});
  return profile_.Child(node, profile_.Frame({.function = function}));
}

}  // namespace dlhook::analyzer::exports
