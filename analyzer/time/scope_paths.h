// What scopes look like: a run has tens of millions of them, but a step some hundred that recur in each.
#ifndef DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
#define DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_

#include <cstdint>
#include <utility>

#include "analyzer/model/recurring_keys.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

using PathIndex = uint32_t;
constexpr PathIndex kNoScopes = kNone;

// A scope's look, and that of the scopes around it.
struct ScopePath {
  PathIndex parent = kNoScopes;
  ScopeLook look = {};
  friend bool operator==(const ScopePath&, const ScopePath&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ScopePath& path) {
    return H::combine(std::move(hash), path.parent, path.look);
  }
};

// Equal for scopes that look alike, in scopes that look alike.
class ScopePaths {
 public:
  explicit ScopePaths(const ScopeColumns& scopes) {
    paths_.reserve(scopes.size());
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {  // parents precede their children
      paths_.push_back({Of(scopes.parent[scope]), scopes.look[scope]});
    }
  }
  PathIndex Of(ScopeIndex scope) const { return scope == kNone ? kNoScopes : paths_.IndexAt(scope); }

 private:
  RecurringColumn<ScopePath> paths_;
};

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
