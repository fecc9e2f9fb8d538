// The stacks of calls as the framework tells them: Python frames, and the scopes of its operators in between.
#ifndef DLHOOK_ANALYZER_EXPORT_FRAMEWORK_STACKS_H_
#define DLHOOK_ANALYZER_EXPORT_FRAMEWORK_STACKS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/export/profile.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline exports {

struct FrameworkStackOptions {
  bool with_python = true;
  bool with_scopes = true;
};

// Remembers what it has woven: `profile` must outlive it.
//
// A scope stands where its own Python stack (of when it began) leaves that of the call: main, fit,
// [Optimizer.step#SGD.step], SGD.step, [aten::add_]. Frames are compared by function, as lines move on in a function
// that goes on. Scopes stay in their order, whatever their stacks say; one without a stack stands right inside the
// scope around it.
class FrameworkStacks {
 public:
  FrameworkStacks(const FrameworkStackOptions& options, Profile* profile);

  // The node of the stack of `call` inside `outer`, without the call itself.
  NodeIndex Under(NodeIndex outer, CallIndex call);

 private:
  using PathIndex = uint32_t;  // of paths_
  struct ScopePath {           // a scope by what it looks like, and those around it
    PathIndex parent;
    NameIndex name;
    StackIndex stack;
  };

  void FindPaths();
  NodeIndex Weave(NodeIndex outer, PathIndex path, StackIndex stack);
  NodeIndex AddPython(NodeIndex node, const PythonFrame& frame);
  NodeIndex AddScope(NodeIndex node, NameIndex name);
  size_t CommonFrames(StackIndex a, StackIndex b) const;  // from the outermost

  const TraceModel& model_;
  const FrameworkStackOptions options_;
  Profile& profile_;
  std::vector<ScopePath> paths_;       // the first is that of no scope
  std::vector<PathIndex> scope_path_;  // by ScopeIndex
  absl::flat_hash_map<std::pair<NodeIndex, uint64_t>, NodeIndex> woven_;
};

}  // namespace dlhook::analyzer::exports

#endif  // DLHOOK_ANALYZER_EXPORT_FRAMEWORK_STACKS_H_
