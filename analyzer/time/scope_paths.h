// What scopes look like: a run has tens of millions of them, but a step some hundred that recur in each.
#ifndef DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
#define DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "analyzer/model/recurring_keys.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline time {

using PathIndex = uint32_t;
constexpr PathIndex kNoScopes = 0;

// A scope's appearance, and that of the scopes around it.
struct ScopePath {
  PathIndex parent = kNoScopes;
  NameIndex name = kNone;
  ScopeKind kind = ScopeKind::kUnknown;
  StackIndex stack = kNone;
  friend bool operator==(const ScopePath&, const ScopePath&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ScopePath& path) {
    return H::combine(std::move(hash), path.parent, path.name, path.kind, path.stack);
  }
};

class ScopePaths {
 public:
  explicit ScopePaths(const TraceModel& model);

  PathIndex Of(ScopeIndex scope) const { return scope == kNone ? kNoScopes : of_scope_[scope]; }
  const ScopePath& operator[](PathIndex path) const { return paths_[path]; }

 private:
  RecurringKeys<ScopePath> paths_;
  CompactColumn<PathIndex, int16_t> of_scope_;
};

}  // namespace dlhook::analyzer::time

#endif  // DLHOOK_ANALYZER_TIME_SCOPE_PATHS_H_
