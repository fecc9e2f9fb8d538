// Nests the scopes of one thread, and finds the innermost one around a call.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/reader/clock_map.h"
#include "analyzer/reader/staging.h"

namespace dlhook::analyzer::inline reader {

// Scopes that overlap by less are nested silently: a tap that reports a scope when it is over reports its duration, and
// both ends are off by the time until then.
constexpr int64_t kScopeResolutionNs = 1000;

// What the nested scopes of a thread come to.
struct NestedScopes {
  // A scope that knows which calls it encloses, or that encloses those in its time (no first_sequence).
  struct Calls {
    ScopeIndex scope = 0;
    uint32_t count = 0;
    uint64_t first_sequence = 0;
  };
  std::vector<Calls> calls;  // from the last scope to the first; left out if the thread has no calls
  int64_t cut = 0;           // by more than kScopeResolutionNs
  int64_t start_ns = INT64_MAX;
  int64_t end_ns = INT64_MIN;
  bool are_possible = true;  // false: their durations exceed the budget
};

// `staged`: in the order of their ends; none is left. They become the last scopes of `columns`, which have room for them, in
// the order of their starts, each inside its parent and disjoint from its siblings. Of two scopes, the one that ended first
// is inside the other if it began in it, or if at least half of it overlaps: then its start is cut, else its end. A message
// (by the role of its name) begins when its thread was done with all else: from then on that waits for it.
NestedScopes NestScopes(const ClockMap& clock, bool has_calls, const std::vector<ScopeRole>& roles,
                        StagedScopes* staged, TimeBudget* budget, ScopeColumns* columns);

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

// Resolution of the durations in oneDNN's log: 1/1024 ms, rounded up.
constexpr int64_t kTapResolutionNs = 977;

struct NestingCounts {
  int64_t lost_parents = 0;  // a call names a parent that is not in the trace
  int64_t clipped = 0;       // a call was shortened by more than kTapResolutionNs to nest
};

// `calls` of one thread: as recorded, in the order of their ends. Afterwards as nested (see StagedCall), in the order of their
// starts, every call inside its parent and disjoint from its siblings.
//
// A hook knows the call around it. A tap call (a line of a library's log) is reported only when it is over: it adopts
// the hook calls with the same recorded parent that lie inside it. Its start (its end minus a duration in steps of
// kTapResolutionNs, where the end is late by the time to print the line) is not exact, so
//   - a hook call shorter than a step that starts within a step of the tap call's start comes before it;
//   - a hook call that began before it is inside if they overlap by more than a step and by at least half of the hook
//     call: then the tap call begins with it; otherwise the hook call comes before it;
//   - what comes before a tap call clips its start. Tap calls never contain tap calls.
void NestCalls(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts);

}  // namespace dlhook::analyzer::reader
