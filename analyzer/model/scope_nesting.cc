// One pass from the scope that ended last to the first, as NestCalls does with calls: later ones are inside or before
// earlier ones, and the result fits into the array it is read from. Compares ticks: in nanoseconds, scopes less than
// one apart would touch.
#include "analyzer/model/scope_nesting.h"

#include <algorithm>
#include <cstddef>

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline model {
namespace {

struct OpenScope {
  StagedScope scope;  // as recorded; its parent: the child visited last, to which the others are linked until the scope
                      // is closed
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t first_child_start = 0;
};

class ScopeNester {
 public:
  ScopeNester(const ClockMap& clock, absl::Span<StagedScope> scopes)
      : clock_(clock), scopes_(scopes), next_place_(scopes.size()) {}

  int64_t Run() {
    for (size_t i = scopes_.size(); i-- > 0;) {
      OpenScope scope = Read(scopes_[i]);
      while (!open_.empty() && !Holds(open_.back(), scope)) CloseInnermost();
      if (open_.size() >= kMaxOpenScopes) CloseInnermost();  // limits the walk from each call outwards
      Fit(&scope);
      open_.push_back(scope);
    }
    while (!open_.empty()) CloseInnermost();
    return cut_;
  }

 private:
  static OpenScope Read(const StagedScope& staged) {
    OpenScope scope;
    scope.scope = staged;
    scope.scope.parent = kNone;
    scope.end = static_cast<uint64_t>(staged.time);
    scope.start = scope.end - std::min(static_cast<uint64_t>(staged.duration), scope.end);
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
    if (cut != 0 && clock_.DurationNs(cut) > kScopeResolutionNs) ++cut_;
    scope->start = start;
    scope->end = end;
    scope->first_child_start = end;
  }

  void CloseInnermost() {
    const OpenScope closed = open_.back();
    open_.pop_back();
    const uint32_t place = static_cast<uint32_t>(--next_place_);
    for (uint32_t child = closed.scope.parent; child != kNone;) {
      const uint32_t sibling = scopes_[child].parent;
      scopes_[child].parent = place;
      child = sibling;
    }
    StagedScope& nested = scopes_[place];
    nested = closed.scope;
    nested.time = clock_.ToNs(closed.start);
    nested.duration = clock_.ToNs(closed.end) - nested.time;
    nested.parent = kNone;
    if (open_.empty()) {
      top_start_ = closed.start;
      return;
    }
    OpenScope& parent = open_.back();
    nested.parent = parent.scope.parent;
    parent.scope.parent = place;
    parent.first_child_start = closed.start;
  }

  const ClockMap& clock_;
  absl::Span<StagedScope> scopes_;
  size_t next_place_;  // one after the place of the next scope to be closed
  std::vector<OpenScope> open_;
  uint64_t top_start_ = UINT64_MAX;  // of the earliest closed scope without a parent
  int64_t cut_ = 0;
};

}  // namespace

int64_t NestScopes(const ClockMap& clock, absl::Span<StagedScope> scopes) { return ScopeNester(clock, scopes).Run(); }

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

}  // namespace dlhook::analyzer::model
