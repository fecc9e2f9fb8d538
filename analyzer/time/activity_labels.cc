// What threads do, in words: see activity_labels.h.
#include "analyzer/time/activity_labels.h"

#include <iterator>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline time {

std::string ScopeLabel(const TraceModel& model, ScopeIndex scope) {
  absl::string_view name = WithoutEngine(model.names[model.scopes.look[scope].name]);
  if (model.RoleOf(scope) == ScopeRole::kProfilerStep)
    name = name.substr(0, name.find('#'));  // one activity of all steps
  if (model.scopes.look[scope].kind == ScopeKind::kGraphNode) name = name.substr(name.rfind(':') + 1);
  return std::string(name);
}

bool IsOwnCode(const TraceModel& model, ScopeIndex scope) {
  return model.scopes.look[scope].kind == ScopeKind::kUserRange && !IsOptimizer(model.RoleOf(scope));
}

const char* ActivityName(ActivityKind kind) {
  constexpr const char* kNames[] = {kUnattributed, "library", "framework", "not seen", "data loading", "waiting"};
  static_assert(std::size(kNames) == static_cast<size_t>(ActivityKind::kWaiting) + 1);
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace dlhook::analyzer::time
