// Batches of scopes are stored as they arrive; after the thread's last packet they are mapped, nested and joined with
// its calls.
#include "analyzer/model/scope_builder.h"

#include <algorithm>

#include "absl/types/span.h"

namespace dlhook::analyzer::inline model {
namespace {

constexpr size_t kScopesAtATime = 1 << 14;  // moved from staging to the model
constexpr uint32_t kMaxKind = 15;           // the largest that fits into StagedScope

template <typename Function>
void ForEachColumn(ScopeColumns* scopes, Function function) {
  function(&scopes->start_ns);
  function(&scopes->duration_ns);
  function(&scopes->name);
  function(&scopes->kind);
  function(&scopes->link);
  function(&scopes->parent);
  function(&scopes->python_stack);
}

size_t UsableScopes(const trace::ScopeBatch& batch, Oddities* oddities) {
  auto [shortest, longest] =
      std::minmax({batch.name_iid_size(), batch.end_delta_ticks_size(), batch.duration_ticks_size(), batch.kind_size(),
                   batch.link_delta_size(), batch.first_sequence_delta_size(), batch.call_count_size()});
  if (batch.python_stack_iid_size() != 0) {
    shortest = std::min(shortest, batch.python_stack_iid_size());
    longest = std::max(longest, batch.python_stack_iid_size());
  }
  oddities->Count("a scope that lacks some of its fields (arrays of a batch differ in length)", longest - shortest);
  return static_cast<size_t>(shortest);
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
  const size_t count = UsableScopes(batch, oddities);
  const bool has_stacks = batch.python_stack_iid_size() != 0;
  StagedScope* const begin = scopes_.Reserve(count);
  StagedScope* out = begin;
  uint64_t end_ticks = batch.base_end_ticks();
  uint64_t first_sequence = batch.base_first_sequence();
  int64_t link = 0;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    end_ticks += static_cast<uint64_t>(batch.end_delta_ticks(i));
    first_sequence += static_cast<uint64_t>(batch.first_sequence_delta(i));
    link = static_cast<int64_t>(static_cast<uint64_t>(link) + static_cast<uint64_t>(batch.link_delta(i)));
    const uint64_t duration = batch.duration_ticks(i);
    if (!parts.all() && !parts.Has(end_ticks - std::min(duration, end_ticks), end_ticks)) continue;
    if (end_ticks < last_end_ticks_) in_order_ = false;
    last_end_ticks_ = end_ticks;
    const auto kind = static_cast<uint32_t>(batch.kind(i));
    out->time = static_cast<int64_t>(end_ticks);
    out->duration = Saturated(duration);
    out->first_sequence = first_sequence;
    out->link = link;
    out->call_count = batch.call_count(i);
    out->name = names->FindName(batch.name_iid(i));
    out->kind = kind <= kMaxKind ? kind : 0;
    out->python_stack = has_stacks ? names->FindStack(batch.python_stack_iid(i)) : kNone;
    if (names->IsScopeWindow(out->name)) {
      windows_.emplace_back(end_ticks - std::min(duration, end_ticks), end_ticks);
    } else {
      ++out;
    }
  }
  scopes_.Commit(static_cast<size_t>(out - begin));
}

// Windows may begin and end anywhere: they do not nest.
void ThreadScopes::AppendWindows(const ClockMap& clock, ThreadIndex thread, TraceModel* model) const {
  for (const auto& [start, end] : windows_) {
    model->scope_windows.push_back({model->threads[thread].process, clock.ToNs(start), clock.ToNs(end)});
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
  const absl::Span<StagedScope> scopes = scopes_.values();
  if (!in_order_) {
    std::stable_sort(scopes.begin(), scopes.end(), [](const StagedScope& a, const StagedScope& b) {
      return static_cast<uint64_t>(a.time) < static_cast<uint64_t>(b.time);
    });
  }
  oddities->Count("a scope that overlapped another one of its thread and was shortened", NestScopes(clock, scopes));
  if (!budget->TakeAll(scopes)) {
    oddities->Count("a scope of a thread whose times can't be true", static_cast<int64_t>(scopes.size()));
    return;
  }
  Append(thread, model);
  Join(first_call, model);
}

void ThreadScopes::Append(ThreadIndex thread, TraceModel* model) {
  ScopeColumns& columns = model->scopes;
  const absl::Span<const StagedScope> scopes = scopes_.values();
  const size_t base = columns.size();
  ForEachColumn(&columns, [&](auto* column) { GrowFor(column, scopes.size()); });
  for (size_t begin = 0; begin < scopes.size(); begin += kScopesAtATime) {
    const size_t end = std::min(begin + kScopesAtATime, scopes.size());
    for (size_t i = begin; i < end; ++i) {
      const StagedScope& scope = scopes[i];
      const size_t to = base + i;
      const int64_t end_ns = scope.time + scope.duration;
      columns.start_ns.push_back(scope.time);
      columns.duration_ns.push_back(scope.duration);
      columns.name.push_back(scope.name);
      columns.kind.push_back(static_cast<ScopeKind>(scope.kind));
      columns.link.push_back(scope.link);
      columns.thread.push_back(thread);
      columns.parent.push_back(scope.parent == kNone ? kNone : static_cast<ScopeIndex>(base + scope.parent));
      columns.python_stack.push_back(scope.python_stack);
      start_ns_ = std::min(start_ns_, scope.time);
      end_ns_ = std::max(end_ns_, end_ns);
      if (scope.first_sequence == 0) {
        by_time_.Open(scope.time, end_ns, static_cast<ScopeIndex>(to));
      } else if (scope.call_count != 0) {
        const int64_t first = Saturated(scope.first_sequence);
        by_sequence_.Open(first, Saturated(static_cast<uint64_t>(first) + scope.call_count),
                          static_cast<ScopeIndex>(to));
      }
    }
    scopes_.ReleaseFront(end);
  }
  by_sequence_.Seal();
  by_time_.Seal();
}

void FinishScopeWindows(size_t first, const std::vector<int64_t>& stops_ns, int64_t end_ns,
                        std::vector<ScopeWindow>* windows) {
  std::vector<ScopeWindow> reported(windows->begin() + static_cast<ptrdiff_t>(first), windows->end());
  std::sort(reported.begin(), reported.end(), [](const ScopeWindow& a, const ScopeWindow& b) {
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
      const auto stop = std::lower_bound(stops_ns.begin(), stops_ns.end(), window.start_ns);
      window.end_ns = stop != stops_ns.end() ? std::min(*stop, end_ns) : end_ns;
      if (i + 1 < reported.size()) window.end_ns = std::min(window.end_ns, reported[i + 1].start_ns);
    }
    windows->push_back(window);
  }
}

// By time, a call belongs where its end is: the start that a tap reports is its end minus a coarse duration.
void ThreadScopes::Join(size_t first_call, TraceModel* model) {
  CallColumns& calls = model->calls;
  if (first_call == calls.size() || (by_sequence_.empty() && by_time_.empty())) return;
  calls.scope.resize(calls.size(), kNone);
  for (size_t i = first_call; i < calls.size(); ++i) {
    const int64_t end_ns = calls.start_ns[i] + calls.duration_ns[i];
    calls.scope[i] = Inner(model->scopes, by_sequence_.At(Saturated(calls.sequence[i])), by_time_.At(end_ns - 1));
  }
}

}  // namespace dlhook::analyzer::model
