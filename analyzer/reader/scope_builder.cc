#include "analyzer/reader/scope_builder.h"

namespace dlhook::analyzer::inline reader {
namespace {

uint64_t StartOf(const RecordedScope& scope) {
  return scope.end_ticks - std::min(scope.duration_ticks, scope.end_ticks);
}

int64_t Saturated(uint64_t value) { return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)); }

// The inner one of the scopes around a call that were found by sequence number and by time. Sequence numbers are exact
// and win if the two contradict each other.
ScopeIndex Inner(const ScopeColumns& scopes, ScopeIndex by_sequence, ScopeIndex by_time) {
  if (by_sequence == kNone || by_time == kNone) return by_sequence == kNone ? by_time : by_sequence;
  return by_time > by_sequence && scopes.EndOf(by_time) <= scopes.EndOf(by_sequence) ? by_time : by_sequence;
}

}  // namespace

void ThreadScopes::Add(const trace::ScopeBatch& batch, const ReadParts& parts, PythonBuilder* names,
                       Oddities* oddities) {
  values::ScopeBatchRows row(batch);
  oddities->Count("a scope that lacks some of its fields (arrays of a batch differ in length)",
                  row.longest - row.count);
  RecordedScope scope;
  while (row.i < row.count) {
    row.Next();
    scope.end_ticks = row.end_ticks;
    scope.first_sequence = row.first_sequence;
    scope.link = static_cast<int64_t>(row.link);
    scope.duration_ticks = row.duration_ticks;
    scope.call_count = row.call_count;
    scope.name = names->FindName(row.name_iid);
    scope.kind = static_cast<uint32_t>(row.kind);
    scope.python_stack = batch.python_stack_iid_size() == 0 ? kNone : names->FindStack(row.python_stack_iid);
    if (!names->IsScopeWindow(scope.name)) {
      Add(scope, parts);
    } else if (parts.all() || parts.Has(StartOf(scope), scope.end_ticks)) {
      windows_.push_back({StartOf(scope), scope.end_ticks, names->IsSlowStep(scope.name)});
    }
  }
}

void ThreadScopes::Add(const RecordedScope& scope, const ReadParts& parts) {
  if (!parts.all() && !parts.Has(StartOf(scope), scope.end_ticks)) return;
  if (scope.end_ticks < last_end_ticks_) in_order_ = false;
  last_end_ticks_ = scope.end_ticks;
  scopes_.Add(scope);
}

// Windows may begin and end anywhere: they do not nest.
void ThreadScopes::AppendWindows(const ClockMap& clock, ThreadIndex thread, TraceModel* model) const {
  for (const auto& [start, end, is_slow_step] : windows_) {
    model->scope_windows.push_back({model->threads[thread].process, clock.ToNs(start), clock.ToNs(end), is_slow_step});
  }
}

void ThreadScopes::Finish(const ClockMap& clock, ThreadIndex thread, size_t first_call, TimeBudget* budget,
                          TraceModel* model, Oddities* oddities) {
  AppendWindows(clock, thread, model);
  if (scopes_.size() == 0) return;
  if (scopes_.size() >= kNone - model->scopes.size()) {
    oddities->Count("a scope beyond the 2^32 that one report can hold", static_cast<int64_t>(scopes_.size()));
    return;
  }
  if (!in_order_) scopes_.Sort();
  const size_t base = model->scopes.size(), count = scopes_.size();
  const TimeBudget before = *budget;
  model->scopes.Resize(base + count, thread);
  const bool has_calls = first_call != model->calls.size();
  const NestedScopes nested = NestScopes(clock, has_calls, model->roles, &scopes_, budget, &model->scopes);
  oddities->Count("a scope that overlapped another one of its thread and was shortened", nested.cut);
  if (!nested.are_possible) {
    *budget = before;
    model->scopes.Resize(base, thread);
    oddities->Count("a scope of a thread whose times can't be true", static_cast<int64_t>(count));
    return;
  }
  start_ns_ = nested.start_ns;
  end_ns_ = nested.end_ns;
  if (!nested.calls.empty()) Join(nested.calls, first_call, model);
}

void FinishScopeWindows(size_t first, const std::vector<int64_t>& stops_ns, int64_t end_ns,
                        std::vector<ScopeWindow>* windows) {
  std::vector<ScopeWindow> reported(windows->begin() + static_cast<ptrdiff_t>(first), windows->end());
  absl::c_sort(reported, [](const ScopeWindow& a, const ScopeWindow& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  windows->resize(first);
  int64_t known_until_ns = INT64_MIN;
  for (size_t i = 0; i < reported.size(); ++i) {
    ScopeWindow window = reported[i];
    const bool is_mark = window.end_ns == window.start_ns;
    if (is_mark && window.start_ns <= known_until_ns) continue;
    if (!is_mark) {
      known_until_ns = std::max(known_until_ns, window.end_ns);
    } else {
      const auto stop = absl::c_lower_bound(stops_ns, window.start_ns);
      window.end_ns = stop != stops_ns.end() ? std::min(*stop, end_ns) : end_ns;
      if (i + 1 < reported.size()) window.end_ns = std::min(window.end_ns, reported[i + 1].start_ns);
    }
    windows->push_back(window);
  }
}

// By time, a call belongs where its end is: the start that a tap reports is its end minus a coarse duration.
void ThreadScopes::Join(const std::vector<NestedScopes::Calls>& scopes_of_calls, size_t first_call, TraceModel* model) {
  InnermostIndex by_sequence, by_time;
  for (auto of = scopes_of_calls.rbegin(); of != scopes_of_calls.rend(); ++of) {
    if (of->first_sequence == 0) {
      by_time.Open(model->scopes.start_ns[of->scope], model->scopes.EndOf(of->scope), of->scope);
    } else {
      const int64_t first = Saturated(of->first_sequence);
      by_sequence.Open(first, Saturated(static_cast<uint64_t>(first) + of->count), of->scope);
    }
  }
  by_sequence.Seal();
  by_time.Seal();
  CallColumns& calls = model->calls;
  calls.scope.resize(calls.size(), kNone);
  for (size_t i = first_call; i < calls.size(); ++i) {
    const int64_t end_ns = calls.EndOf(i);
    calls.scope[i] = Inner(model->scopes, by_sequence.At(Saturated(calls.sequence[i])), by_time.At(end_ns - 1));
  }
}

}  // namespace dlhook::analyzer::reader
