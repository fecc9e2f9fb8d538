// What threads do, in words: see activity_labels.h.
#include "analyzer/time/activity_labels.h"

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
  switch (kind) {
    case ActivityKind::kCall:
      return "library";
    case ActivityKind::kScope:
      return "framework";
    case ActivityKind::kNotSeen:
      return "not seen";
    case ActivityKind::kDataLoading:
      return "data loading";
    case ActivityKind::kWaiting:
      return "waiting";
    case ActivityKind::kUnattributed:
      break;
  }
  return kUnattributed;
}

}  // namespace dlhook::analyzer::time
