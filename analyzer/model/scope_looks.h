// Scopes by what they look like: a run has tens of millions of scopes, and some thousand looks.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

// `visit`s, in order, the scopes whose looks match. Asks once per look; without one that matches no scope is looked at.
template <typename Matches, typename Visit>
void ForEachScopeThat(const ScopeColumns& scopes, Matches matches, Visit visit) {
  const RecurringKeys<ScopeLook>& looks = scopes.look.values();
  std::vector<char> is_match(looks.size());
  bool has_any = false;
  for (uint32_t look = 0; look < looks.size(); ++look) has_any |= (is_match[look] = matches(looks[look]));
  for (ScopeIndex scope = 0; has_any && scope < scopes.size(); ++scope) {
    if (is_match[scopes.look.IndexAt(scope)]) visit(scope);
  }
}

// How many scopes of a thread have a look, by its index.
inline std::vector<int64_t> CountLooks(const ScopeColumns& scopes, ThreadIndex thread) {
  std::vector<int64_t> counts(scopes.look.values().size());
  const auto [first, end] = scopes.thread.RangeOf(thread);
  for (ScopeIndex scope = first; scope < end; ++scope) ++counts[scopes.look.IndexAt(scope)];
  return counts;
}

}  // namespace dlhook::analyzer::model
