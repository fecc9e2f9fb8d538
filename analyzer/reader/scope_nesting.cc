// One pass from the scope that ended last to the first, as NestCalls does with calls: later ones are inside or before
// earlier ones, and columns fill up from the back as fast as what they are read from gets shorter. Compares ticks: in
// nanoseconds, scopes less than one apart would touch.
#include "analyzer/reader/scope_nesting.h"

#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline reader {
namespace {

struct OpenScope {
  int64_t link = -1;
  uint64_t first_sequence = 0;
  uint32_t call_count = 0;
  uint32_t look = 0;            // in the columns
  uint32_t last_child = kNone;  // the child visited last, to which the others are linked until the scope is closed
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t first_child_start = 0;
  bool is_message = false;
};

class ScopeNester {
 public:
  ScopeNester(const ClockMap& clock, bool has_calls, const std::vector<ScopeRole>& roles, StagedScopes* staged,
              TimeBudget* budget, ScopeColumns* columns)
      : clock_(clock),
        has_calls_(has_calls),
        roles_(roles),
        staged_(*staged),
        budget_(*budget),
        columns_(*columns),
        next_place_(columns->size()) {}

  NestedScopes Run() {
    while (staged_.size() > 0) {
      const RecordedScope recorded = staged_.TakeLast();
      const uint64_t end = recorded.end_ticks, start = end - std::min(recorded.duration_ticks, end);
      if (!open_.empty() && open_.back().is_message) {
        open_.back().start = std::max(open_.back().start, std::min(end, open_.back().end));
        CloseInnermost();
      }
      const bool is_message = IsMessage(recorded);
      while (!open_.empty() && !Holds(open_.back(), is_message ? end : start, end)) CloseInnermost();
      if (open_.size() >= kMaxOpenScopes) CloseInnermost();  // limits the walk from each call outwards
      Open(recorded, start, end);
    }
    while (!open_.empty()) CloseInnermost();
    return std::move(nested_);
  }

 private:
  // It ended before or with `outer`: whether it lies inside entirely, by half, or less.
  static bool Holds(const OpenScope& outer, uint64_t start, uint64_t end) {
    return end > outer.start && end - outer.start >= (end - start + 1) / 2;
  }

  bool IsMessage(const RecordedScope& scope) const { return roles_[scope.name] == ScopeRole::kMessage; }

  // Shortens it to fit into its parent and before the sibling visited last.
  void Open(const RecordedScope& recorded, uint64_t recorded_start, uint64_t recorded_end) {
    const uint64_t earliest = open_.empty() ? 0 : open_.back().start;
    const uint64_t latest = open_.empty() ? top_start_ : open_.back().first_child_start;
    const uint64_t end = std::max(std::min(recorded_end, latest), earliest);
    const uint64_t start = std::min(std::max(recorded_start, earliest), end);
    const uint64_t cut = (recorded_end - recorded_start) - (end - start);
    if (cut != 0 && !IsMessage(recorded) && clock_.DurationNs(cut) > kScopeResolutionNs) ++nested_.cut;
    OpenScope& scope = open_.emplace_back();
    scope.link = recorded.link;
    scope.first_sequence = recorded.first_sequence;
    scope.is_message = IsMessage(recorded);
    if (!scope.is_message) scope.call_count = recorded.call_count;  // from a message's beginning on they are of others
    scope.look = LookOf(recorded);
    scope.start = start;
    scope.end = scope.first_child_start = end;
  }

  uint32_t LookOf(const RecordedScope& scope) {
    if (scope.look >= looks_.size()) looks_.resize(scope.look + 1, kNone);
    uint32_t& look = looks_[scope.look];
    if (look == kNone) {
      look = columns_.look.IndexOf({scope.name, static_cast<ScopeKind>(scope.kind), scope.python_stack});
    }
    return look;
  }

  void CloseInnermost() {
    const OpenScope& closed = open_.back();
    const auto place = static_cast<ScopeIndex>(--next_place_);
    for (uint32_t child = closed.last_child; child != kNone;) {
      const uint32_t sibling = columns_.parent[child];
      columns_.parent.Set(child, place);
      child = sibling;
    }
    Write(closed, place);
    const uint64_t start = closed.start;
    open_.pop_back();
    if (open_.empty()) {
      top_start_ = start;
      columns_.parent.Set(place, kNone);
      return;
    }
    OpenScope& parent = open_.back();
    columns_.parent.Set(place, parent.last_child);
    parent.last_child = place;
    parent.first_child_start = start;
  }

  void Write(const OpenScope& closed, ScopeIndex place) {
    const int64_t start_ns = clock_.ToNs(closed.start), end_ns = clock_.ToNs(closed.end);
    columns_.start_ns.Set(place, start_ns);
    columns_.duration_ns.Set(place, end_ns - start_ns);
    columns_.look.SetIndex(place, closed.look);
    columns_.link.Set(place, closed.link);
    nested_.start_ns = std::min(nested_.start_ns, start_ns);
    nested_.end_ns = std::max(nested_.end_ns, end_ns);
    nested_.are_possible = nested_.are_possible && budget_.Take(end_ns - start_ns);
    if (!has_calls_ || !MayBeInnermost(closed)) return;
    nested_.calls.push_back({place, closed.call_count, closed.first_sequence});
  }

  // Around a call. What was closed before may be its first child, with the same calls.
  bool MayBeInnermost(const OpenScope& scope) const {
    if (scope.first_sequence == 0) return true;
    if (scope.call_count == 0) return false;
    if (nested_.calls.empty()) return true;
    const NestedScopes::Calls& inner = nested_.calls.back();
    return inner.count != scope.call_count || inner.first_sequence != scope.first_sequence;
  }

  const ClockMap& clock_;
  const bool has_calls_;
  const std::vector<ScopeRole>& roles_;  // by name
  StagedScopes& staged_;
  TimeBudget& budget_;
  ScopeColumns& columns_;
  std::vector<uint32_t> looks_;  // by those of the staged: in the columns; kNone: not known
  size_t next_place_;            // one after the place of the next scope to be closed
  std::vector<OpenScope> open_;
  uint64_t top_start_ = UINT64_MAX;  // of the earliest closed scope without a parent
  NestedScopes nested_;
};

struct OpenCall {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t sequence = 0;
  uint64_t parent_sequence = 0;  // 0: none
  uint32_t op = 0;
  bool is_tap = false;
  // The earliest child, which was visited last; the others are linked by StagedCall::parent until the call is closed.
  uint32_t first_child = kNone;
  int64_t first_child_start_ns = 0;
};

class Nester {
 public:
  Nester(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts)
      : clock_(clock), calls_(calls), counts_(counts), next_place_(calls.size()) {}

  void Run() {
    for (size_t i = calls_.size(); i-- > 0;) {
      OpenCall call = Read(calls_[i]);
      while (!open_.empty() && !Holds(&open_.back(), &call)) CloseInnermost();
      if (open_.empty() && call.parent_sequence != 0) ++counts_->lost_parents;
      Fit(&call);
      open_.push_back(call);
    }
    while (!open_.empty()) CloseInnermost();
  }

 private:
  OpenCall Read(const StagedCall& staged) {
    OpenCall call;
    call.op = staged.op & ~kTapCall;
    call.is_tap = (staged.op & kTapCall) != 0;
    call.sequence = staged.sequence;
    if (staged.parent != 0 && staged.parent < staged.sequence) call.parent_sequence = staged.sequence - staged.parent;
    const uint64_t end_ticks = static_cast<uint64_t>(staged.time);
    const uint64_t duration = static_cast<uint64_t>(staged.duration);
    call.end_ns = clock_.ToNs(end_ticks);
    if (call.is_tap) {
      call.start_ns = call.end_ns - static_cast<int64_t>(std::min<uint64_t>(duration, int64_t{1} << 60));
    } else {
      call.start_ns = clock_.ToNs(end_ticks - std::min(duration, end_ticks));
    }
    call.first_child_start_ns = call.end_ns;
    return call;
  }

  // Whether `outer`, the innermost open call, is the parent. If not, it is complete.
  bool Holds(OpenCall* outer, OpenCall* call) {
    if (call->sequence == kNoSequence) return false;  // a product of XLA's, which is in no other call
    if (outer->sequence == kNoSequence) {
      const int64_t inside_ns = call->end_ns - outer->start_ns;
      return inside_ns > 0 && inside_ns >= (call->end_ns - call->start_ns) / 2;
    }
    if (outer->is_tap) return TapHolds(outer, call);
    if (outer->sequence == call->parent_sequence) return true;
    if (outer->sequence > call->sequence || call->start_ns < outer->start_ns || call->end_ns <= outer->start_ns) {
      return false;
    }
    ++counts_->lost_parents;  // it ran inside `outer`, but names another parent
    return true;
  }

  bool TapHolds(OpenCall* tap, OpenCall* call) {
    if (call->end_ns <= tap->start_ns) return false;
    const int64_t duration_ns = call->end_ns - call->start_ns;
    const int64_t late_ns = call->start_ns - tap->start_ns;
    const int64_t overlap_ns = call->end_ns - tap->start_ns;
    const bool is_inside = late_ns >= 0 ? duration_ns >= kTapResolutionNs || late_ns >= kTapResolutionNs
                                        : overlap_ns > kTapResolutionNs && overlap_ns >= duration_ns / 2;
    if (call->is_tap || !is_inside) {
      tap->start_ns = std::min(call->end_ns, tap->first_child_start_ns);
      return false;
    }
    const int64_t floor_ns = open_.size() > 1 ? open_[open_.size() - 2].start_ns : INT64_MIN;
    tap->start_ns = std::max(std::min(tap->start_ns, call->start_ns), floor_ns);
    if (call->parent_sequence != tap->parent_sequence) ++counts_->lost_parents;
    return true;
  }

  // Shortens `call` to fit into its parent and before the sibling visited last.
  void Fit(OpenCall* call) {
    const int64_t earliest_ns = open_.empty() ? INT64_MIN : open_.back().start_ns;
    const int64_t latest_ns = open_.empty() ? top_start_ns_ : open_.back().first_child_start_ns;
    const int64_t end_ns = std::max(std::min(call->end_ns, latest_ns), earliest_ns);
    const int64_t start_ns = std::min(std::max(call->start_ns, earliest_ns), end_ns);
    const int64_t cut_ns = (call->end_ns - call->start_ns) - (end_ns - start_ns);
    if (cut_ns > kTapResolutionNs) ++counts_->clipped;
    call->start_ns = start_ns;
    call->end_ns = end_ns;
    call->first_child_start_ns = end_ns;
  }

  void CloseInnermost() {
    const OpenCall call = open_.back();
    open_.pop_back();
    const uint32_t place = static_cast<uint32_t>(--next_place_);
    for (uint32_t child = call.first_child; child != kNone;) {
      const uint32_t sibling = calls_[child].parent;
      calls_[child].parent = place;
      child = sibling;
    }
    StagedCall& nested = calls_[place];
    nested = {call.start_ns, call.end_ns - call.start_ns, call.sequence, call.op, kNone};
    if (open_.empty()) {
      top_start_ns_ = call.start_ns;
      return;
    }
    OpenCall& parent = open_.back();
    nested.parent = parent.first_child;
    parent.first_child = place;
    parent.first_child_start_ns = call.start_ns;
  }

  const ClockMap& clock_;
  absl::Span<StagedCall> calls_;
  NestingCounts* counts_;
  size_t next_place_;                 // one after the place of the next call to be closed
  std::vector<OpenCall> open_;        // outermost first
  int64_t top_start_ns_ = INT64_MAX;  // of the earliest closed call without a parent
};

}  // namespace

NestedScopes NestScopes(const ClockMap& clock, bool has_calls, const std::vector<ScopeRole>& roles,
                        StagedScopes* staged, TimeBudget* budget, ScopeColumns* columns) {
  return ScopeNester(clock, has_calls, roles, staged, budget, columns).Run();
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
  const auto after = absl::c_upper_bound(steps_, point, [](int64_t p, const auto& step) { return p < step.first; });
  step_ = static_cast<size_t>(after - steps_.begin()) - 1;
  return steps_[step_].second;
}

// One pass from the last call to the first, so that a call comes after those that may contain it. A closed call has as
// many calls after it as there are free places, so the result fits into the array it is read from.
void NestCalls(const ClockMap& clock, absl::Span<StagedCall> calls, NestingCounts* counts) {
  Nester(clock, calls, counts).Run();
}

}  // namespace dlhook::analyzer::reader
