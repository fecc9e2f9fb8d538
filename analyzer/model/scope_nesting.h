// Nests the scopes of one thread, and finds the innermost one around a call.
#ifndef DLHOOK_ANALYZER_MODEL_SCOPE_NESTING_H_
#define DLHOOK_ANALYZER_MODEL_SCOPE_NESTING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analyzer/model/clock_map.h"
#include "analyzer/model/staging.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

// Scopes that overlap by less are nested silently: a tap that reports a scope when it is over reports its duration, and
// both ends are off by the time until then.
constexpr int64_t kScopeResolutionNs = 1000;

// `scopes`: as recorded, in the order of their ends. Afterwards: nested, in the order of their starts, parents before
// their children (see StagedScope), each inside its parent and disjoint from its siblings. Of two scopes, the one that
// ended first is inside the other if it began in it. If it began earlier, it is inside if at least half of it overlaps:
// then its start is cut, else its end. Returns how many were cut by more than kScopeResolutionNs.
int64_t NestScopes(const ClockMap& clock, absl::Span<StagedScope> scopes);

// The innermost of nested intervals [begin, end) by point: filled in order of begins, outer ones first, then Sealed.
class InnermostIndex {
 public:
  void Open(int64_t begin, int64_t end, ScopeIndex scope);
  void Seal();
  bool empty() const { return steps_.empty(); }

  // kNone: none. Cheap if points ascend.
  ScopeIndex At(int64_t point);

 private:
  void CloseUntil(int64_t point);
  void Step(int64_t from, ScopeIndex scope);

  std::vector<std::pair<int64_t, ScopeIndex>> steps_;  // from this point on, this scope
  std::vector<std::pair<int64_t, ScopeIndex>> open_;   // end and scope, outermost first
  size_t step_ = 0;                                    // the one found last
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_SCOPE_NESTING_H_
