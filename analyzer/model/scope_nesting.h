// Puts the scopes of one thread into each other, and tells which one is the innermost around a call.
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

// Scopes that overlap by less are made to nest without a word: a tap that tells of a scope when it is over tells its duration,
// and both ends move by the time until then.
constexpr int64_t kScopeResolutionNs = 1000;

// `scopes`: as recorded, in the order of their ends. Afterwards: as nested, in the order of their starts, a scope before those
// inside it (see StagedScope), each inside its parent and beside its siblings. Of two scopes the one that ended first is inside
// the other if it began in it; where it began before, if at least half of it lies in the other: then its start is cut, else its
// end. Returns how many were cut by more than kScopeResolutionNs.
int64_t NestScopes(const ClockMap& clock, absl::Span<StagedScope> scopes);

// The innermost of nested intervals [begin, end) by point: filled outer first in the order of their begins, then Sealed.
class InnermostIndex {
 public:
  void Open(int64_t begin, int64_t end, ScopeIndex scope);
  void Seal();
  bool empty() const { return steps_.empty(); }

  // kNone: none. Cheap where points are asked for nearly in order.
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
