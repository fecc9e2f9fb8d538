// One pass from the scope that ended last to the first, as NestCalls does with calls: later ones are inside or before
// earlier ones, and columns fill up from the back as fast as what they are read from gets shorter. Compares ticks: in
// nanoseconds, scopes less than one apart would touch.
#include "analyzer/reader/scope_nesting.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline reader {
namespace {

struct OpenScope {
  RecordedScope scope;
  uint32_t last_child = kNone;  // the child visited last, to which the others are linked until the scope is closed
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t first_child_start = 0;
};

class ScopeNester {
 public:
  ScopeNester(const ClockMap& clock, bool has_calls, StagedScopes* staged, TimeBudget* budget, ScopeColumns* columns)
      : clock_(clock),
        has_calls_(has_calls),
        staged_(*staged),
        budget_(*budget),
        columns_(*columns),
        next_place_(columns->size()) {}

  NestedScopes Run() {
    while (staged_.size() > 0) {
      OpenScope scope = Read(staged_.TakeLast());
      while (!open_.empty() && !Holds(open_.back(), scope)) CloseInnermost();
      if (open_.size() >= kMaxOpenScopes) CloseInnermost();  // limits the walk from each call outwards
      Fit(&scope);
      open_.push_back(scope);
    }
    while (!open_.empty()) CloseInnermost();
    return std::move(nested_);
  }

 private:
  static OpenScope Read(const RecordedScope& recorded) {
    OpenScope scope;
    scope.scope = recorded;
    scope.end = recorded.end_ticks;
    scope.start = scope.end - std::min(recorded.duration_ticks, scope.end);
    return scope;
  }

  // `scope` ended before or with `outer`: whether it lies inside entirely, by half, or less.
  static bool Holds(const OpenScope& outer, const OpenScope& scope) {
    return scope.end > outer.start && scope.end - outer.start >= (scope.end - scope.start + 1) / 2;
  }

  // Shortens it to fit into its parent and before the sibling visited last.
  void Fit(OpenScope* scope) {
    const uint64_t earliest = open_.empty() ? 0 : open_.back().start;
    const uint64_t latest = open_.empty() ? top_start_ : open_.back().first_child_start;
    const uint64_t end = std::max(std::min(scope->end, latest), earliest);
    const uint64_t start = std::min(std::max(scope->start, earliest), end);
    const uint64_t cut = (scope->end - scope->start) - (end - start);
    if (cut != 0 && clock_.DurationNs(cut) > kScopeResolutionNs) ++nested_.cut;
    scope->start = start;
    scope->end = end;
    scope->first_child_start = end;
  }

  void CloseInnermost() {
    const OpenScope closed = open_.back();
    open_.pop_back();
    const auto place = static_cast<ScopeIndex>(--next_place_);
    for (uint32_t child = closed.last_child; child != kNone;) {
      const uint32_t sibling = columns_.parent[child];
      columns_.parent.Set(child, place);
      child = sibling;
    }
    Write(closed, place);
    if (open_.empty()) {
      top_start_ = closed.start;
      columns_.parent.Set(place, kNone);
      return;
    }
    OpenScope& parent = open_.back();
    columns_.parent.Set(place, parent.last_child);
    parent.last_child = place;
    parent.first_child_start = closed.start;
  }

  void Write(const OpenScope& closed, ScopeIndex place) {
    const RecordedScope& scope = closed.scope;
    const int64_t start_ns = clock_.ToNs(closed.start), end_ns = clock_.ToNs(closed.end);
    columns_.start_ns.Set(place, start_ns);
    columns_.duration_ns.Set(place, end_ns - start_ns);
    columns_.look.Set(place, {scope.name, static_cast<ScopeKind>(scope.kind), scope.python_stack});
    columns_.link.Set(place, scope.link);
    nested_.start_ns = std::min(nested_.start_ns, start_ns);
    nested_.end_ns = std::max(nested_.end_ns, end_ns);
    nested_.are_possible = nested_.are_possible && budget_.Take(end_ns - start_ns);
    if (has_calls_ && MayBeInnermost(scope)) nested_.calls.push_back({place, scope.call_count, scope.first_sequence});
  }

  // Around a call. What was closed before may be its first child, with the same calls.
  bool MayBeInnermost(const RecordedScope& scope) const {
    if (scope.first_sequence == 0) return true;
    if (scope.call_count == 0) return false;
    if (nested_.calls.empty()) return true;
    const NestedScopes::Calls& inner = nested_.calls.back();
    return inner.count != scope.call_count || inner.first_sequence != scope.first_sequence;
  }

  const ClockMap& clock_;
  const bool has_calls_;
  StagedScopes& staged_;
  TimeBudget& budget_;
  ScopeColumns& columns_;
  size_t next_place_;  // one after the place of the next scope to be closed
  std::vector<OpenScope> open_;
  uint64_t top_start_ = UINT64_MAX;  // of the earliest closed scope without a parent
  NestedScopes nested_;
};

}  // namespace

NestedScopes NestScopes(const ClockMap& clock, bool has_calls, StagedScopes* staged, TimeBudget* budget,
                        ScopeColumns* columns) {
  return ScopeNester(clock, has_calls, staged, budget, columns).Run();
}

void InnermostIndex::Open(int64_t begin, int64_t end, ScopeIndex scope) {
  CloseUntil(begin);
  if (!open_.empty()) end = std::min(end, open_.back().first);
  Step(begin, scope);
  open_.emplace_back(end, scope);
}

void InnermostIndex::Seal() { CloseUntil(INT64_MAX); }

void InnermostIndex::CloseUntil(int64_t point) {
  while (!open_.empty() && open_.back().first <= point) {
    const int64_t end = open_.back().first;
    open_.pop_back();
    Step(end, open_.empty() ? kNone : open_.back().second);
  }
}

// Damaged numbers may run backwards: these continue from the last step.
void InnermostIndex::Step(int64_t from, ScopeIndex scope) {
  if (!steps_.empty() && from <= steps_.back().first) {
    steps_.back().second = scope;
  } else {
    steps_.emplace_back(from, scope);
  }
}

ScopeIndex InnermostIndex::At(int64_t point) {
  constexpr int kStepsAhead = 4;
  const auto stands = [&](size_t i) {
    return steps_[i].first <= point && (i + 1 == steps_.size() || point < steps_[i + 1].first);
  };
  if (steps_.empty() || point < steps_[0].first) return kNone;
  for (size_t i = step_; i < std::min(step_ + kStepsAhead, steps_.size()); ++i) {
    if (!stands(i)) continue;
    step_ = i;
    return steps_[i].second;
  }
  const auto after =
      std::upper_bound(steps_.begin(), steps_.end(), point, [](int64_t p, const auto& step) { return p < step.first; });
  step_ = static_cast<size_t>(after - steps_.begin()) - 1;
  return steps_[step_].second;
}

}  // namespace dlhook::analyzer::reader
