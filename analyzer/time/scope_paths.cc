// Finds scopes that look alike: see scope_paths.h.
#include "analyzer/time/scope_paths.h"

namespace dlhook::analyzer::inline time {

ScopePaths::ScopePaths(const TraceModel& model) {
  const ScopeColumns& scopes = model.scopes;
  paths_.IndexOf({});  // kNoScopes
  of_scope_.Resize(scopes.size());
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {  // parents precede their children
    of_scope_.Set(scope, paths_.IndexOf({Of(scopes.parent[scope]), scopes.name[scope], scopes.kind[scope],
                                         scopes.python_stack[scope]}));
  }
}

}  // namespace dlhook::analyzer::time
