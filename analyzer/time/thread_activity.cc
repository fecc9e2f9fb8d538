#include "analyzer/time/thread_activity.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/steps/phases.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline time {

using Scope = ScopeKind;

ActivityRules::ActivityRules(const TraceModel& model) : model_(model) {
  waits_.reserve(model.ops.size());
  for (const Op& op : model.ops) waits_.push_back(WaitsForGpu(op));
  const RecurringKeys<ScopeLook>& looks = model.scopes.look.values();
  for (uint32_t i = 0; i < looks.size(); ++i) {
    const auto& [name, kind, stack] = looks[i];
    // What JAX does between compilations is not recorded.
    looks_.push_back({.stack = kind == Scope::kXlaCompilation ? kNone : stack,
                      .is_input = NamesInput(name),
                      .is_bracket = FactsOf(kind).is_bracket,
                      .is_autograd = kind == Scope::kBackwardNode || model.roles[name] == ScopeRole::kEvaluate,
                      .is_work = !FactsOf(kind).is_wait});
    Look& look = looks_.back();
    look.may_be_inner = look.stack == kNone && !look.is_bracket && !look.is_input;
  }
}

bool ActivityRules::AreScopesWhole(ProcessIndex process, int64_t start_ns, int64_t end_ns) const {
  const std::vector<ScopeWindow>& windows = model_.scope_windows;
  const auto begins_by_then = [&](size_t at) {
    return at < windows.size() && windows[at].process == process && windows[at].start_ns <= start_ns;
  };
  size_t at = last_window_.load(std::memory_order_relaxed);
  if (!begins_by_then(at) || begins_by_then(at + 1)) {
    const ScopeWindow* const last = LastWindow(model_, process, start_ns);
    if (last == nullptr) return !HasWindows(model_, process);
    at = static_cast<size_t>(last - windows.data());
    last_window_.store(at, std::memory_order_relaxed);
  }
  return windows[at].end_ns >= end_ns;
}

ThreadActivity::ThreadActivity(const TraceModel& model, const ActivityRules& rules, ThreadIndex thread, bool for_gaps)
    : model_(model), rules_(rules), thread_(thread), for_gaps_(for_gaps) {
  std::tie(calls_.begin, calls_.end) = model.calls.RangeOf(thread);
  std::tie(scopes_.begin, scopes_.end) = model.scopes.thread.RangeOf(thread);
  FindNextStart(EdgeKind::kCallStart);
  FindNextStart(EdgeKind::kScopeStart);
  FindNext(edges_[turn_]);
}

void ThreadActivity::Step() {
  Take(next());
  Turn();
}

void ThreadActivity::SkipTo(int64_t time_ns) {
  const Edge of_scope = Reopen(model_.scopes, scopes_, EdgeKind::kScopeStart, EdgeKind::kScopeEnd, time_ns);
  const Edge of_call = Reopen(model_.calls, calls_, EdgeKind::kCallStart, EdgeKind::kCallEnd, time_ns);
  // At the same time, calls begin last, and end first.
  const bool is_call =
      of_call.kind != EdgeKind::kNone &&
      (of_scope.kind == EdgeKind::kNone || of_call.time_ns > of_scope.time_ns ||
       (of_call.time_ns == of_scope.time_ns && of_call.time_ns == model_.calls.start_ns[of_call.index]));
  edges_[turn_] = is_call ? of_call : of_scope;
  for (const EdgeKind start : {EdgeKind::kCallStart, EdgeKind::kScopeStart}) FindNextStart(start);
  for (const EdgeKind end : {EdgeKind::kCallEnd, EdgeKind::kScopeEnd}) FindNextEnd(end);
  Turn();
}

// Of calls or scopes those that are open at a time: the last one that began, or what is around it. Returns their last
// edge until then. What begins when others end does so after that.
template <typename Columns>
ThreadActivity::Edge ThreadActivity::Reopen(const Columns& columns, Range& left, EdgeKind start, EdgeKind end,
                                            int64_t time_ns) {
  const auto starts = columns.start_ns.begin();
  const auto next = static_cast<uint32_t>(std::upper_bound(starts + left.begin, starts + left.end, time_ns) - starts);
  (start == EdgeKind::kCallStart ? open_calls_ : open_scopes_).clear();
  left.begin = next;
  if (next == 0 || columns.thread[next - 1] != thread_) return {};
  const uint32_t last = next - 1;
  uint32_t closed = kNone;  // the outermost
  std::vector<uint32_t> open;
  const auto end_of = [&](uint32_t index) { return columns.start_ns[index] + columns.duration_ns[index]; };
  for (uint32_t index = last; index != kNone; index = columns.parent[index]) {
    if (end_of(index) > time_ns) {
      open.push_back(index);
    } else {
      closed = index;
    }
  }
  left.begin -= static_cast<uint32_t>(open.size());
  for (auto index = open.rbegin(); index != open.rend(); ++index) Take({start, *index});
  if (closed == kNone) return {start, last, Clamped(columns.start_ns[last])};
  return {end, end_of(closed) == columns.start_ns[last] ? last : closed, Clamped(end_of(closed))};
}

void ThreadActivity::Turn() {
  turn_ ^= 1;
  FindNext(edges_[turn_]);
  FindCurrent(activities_[turn_]);
}

int64_t ThreadActivity::Clamped(int64_t time_ns) const { return std::clamp(time_ns, model_.start_ns, model_.end_ns); }

void ThreadActivity::FindNext(Edge& next) const {
  // Pairs, not one after another: no comparison waits for more than one other.
  const auto earlier = [this](size_t a, size_t b) { return candidates_[b].time_ns < candidates_[a].time_ns ? b : a; };
  const size_t first = earlier(earlier(0, 1), earlier(2, 3));
  next.kind = candidates_[first].kind;
  next.index = candidates_[first].index;
  next.time_ns = candidates_[first].time_ns;
}

void ThreadActivity::SetCandidate(EdgeKind kind, uint32_t index, int64_t time_ns) {
  Edge& candidate = candidates_[static_cast<size_t>(kind)];
  candidate.kind = time_ns == INT64_MAX ? EdgeKind::kNone : kind;
  candidate.index = index;
  candidate.time_ns = time_ns;
}

void ThreadActivity::FindNextStart(EdgeKind kind) {
  const bool is_call = kind == EdgeKind::kCallStart;
  const Range& range = is_call ? calls_ : scopes_;
  while (for_gaps_ && !is_call && scopes_.begin < scopes_.end && rules_.IsInner(scopes_.begin)) ++scopes_.begin;
  if (range.begin == range.end) return SetCandidate(kind, kNone, INT64_MAX);
  const int64_t start_ns = is_call ? model_.calls.start_ns[range.begin] : model_.scopes.start_ns[range.begin];
  SetCandidate(kind, range.begin, Clamped(start_ns));
}

void ThreadActivity::FindNextEnd(EdgeKind kind) {
  const std::vector<Open>& open = kind == EdgeKind::kCallEnd ? open_calls_ : open_scopes_;
  if (open.empty()) return SetCandidate(kind, kNone, INT64_MAX);
  SetCandidate(kind, open.back().index, Clamped(open.back().end_ns));
}

void ThreadActivity::Take(const Edge& edge) {
  switch (edge.kind) {
    case EdgeKind::kCallStart: {
      Open& open = open_calls_.emplace_back();
      open.index = edge.index;
      open.end_ns = model_.calls.start_ns[edge.index] + model_.calls.duration_ns[edge.index];
      ++calls_.begin;
      FindNextStart(EdgeKind::kCallStart);
      return FindNextEnd(EdgeKind::kCallEnd);
    }
    case EdgeKind::kScopeStart: {
      const ScopeIndex around = open_scopes_.empty() ? kNone : open_scopes_.back().input;
      Open& open = open_scopes_.emplace_back();
      open.index = edge.index;
      open.end_ns = model_.scopes.EndOf(edge.index);
      open.input = rules_.IsInput(edge.index) ? edge.index : around;
      ++scopes_.begin;
      FindNextStart(EdgeKind::kScopeStart);
      return FindNextEnd(EdgeKind::kScopeEnd);
    }
    case EdgeKind::kCallEnd:
      open_calls_.pop_back();
      return FindNextEnd(EdgeKind::kCallEnd);
    case EdgeKind::kScopeEnd:
      open_scopes_.pop_back();
      return FindNextEnd(EdgeKind::kScopeEnd);
    case EdgeKind::kNone:
      return;
  }
}

void ThreadActivity::FindCurrent(Activity& now) const {
  const auto set = [&](ActivityKind kind, uint32_t index, bool is_work) {
    now.kind = kind;
    now.index = index;
    now.is_work = is_work;
    now.gap.before = now.gap.after = now.gap.around = kNone;
  };
  if (!open_calls_.empty()) {
    const CallIndex call = open_calls_.back().index;
    const bool waits = rules_.Waits(call);
    return set(waits ? ActivityKind::kWaiting : ActivityKind::kCall, call, !waits);
  }
  set(ActivityKind::kUnattributed, kNone, false);
  if (open_scopes_.empty()) return FindGap(now);
  const Open& scope = open_scopes_.back();
  const bool is_bracket = rules_.IsBracket(scope.index);
  if (scope.input == scope.index || (is_bracket && scope.input != kNone)) {
    return set(ActivityKind::kDataLoading, scope.input, /*is_work=*/false);
  }
  set(ActivityKind::kScope, scope.index, rules_.IsWork(scope.index));
  if (is_bracket) FindGap(now);
}

// From now to the next edge. Leaves `now` as it is if nothing is known.
void ThreadActivity::FindGap(Activity& now) const {
  const StackIndex before = StackOf(last()), after = StackOf(next());
  if (before == kNone || after == kNone) return;
  if (!rules_.AreScopesWhole(model_.threads[thread_].process, last().time_ns, next().time_ns)) return;
  if (IsAutograd(last()) && IsAutograd(next())) {
    now.kind = ActivityKind::kScope;
    now.index = last().index;
    now.is_work = true;
    return;
  }
  now.gap.before = before;
  now.gap.after = after;
  now.gap.around = now.index;
  now.kind = ActivityKind::kNotSeen;
  now.index = thread_;
  now.is_work = false;
}

StackIndex ThreadActivity::StackOf(const Edge& edge) const {
  if (edge.kind == EdgeKind::kNone) return kNone;
  return edge.IsOfCall() ? model_.PythonStackOf(edge.index) : rules_.StackAt(edge.index);
}

bool ThreadActivity::IsAutograd(const Edge& edge) const {
  return (edge.kind == EdgeKind::kScopeStart || edge.kind == EdgeKind::kScopeEnd) && rules_.IsAutograd(edge.index);
}

std::string ScopeLabel(const TraceModel& model, ScopeIndex scope) {
  absl::string_view name = WithoutEngine(model.names[model.scopes.look[scope].name]);
  if (model.RoleOf(scope) == ScopeRole::kProfilerStep)
    name = name.substr(0, name.find('#'));  // one activity of all steps
  if (model.scopes.look[scope].kind == ScopeKind::kGraphNode) name = name.substr(name.rfind(':') + 1);
  return std::string(name);
}

bool IsOwnCode(const TraceModel& model, ScopeIndex scope) {
  return model.scopes.look[scope].kind == ScopeKind::kUserRange && !IsOptimizer(model.RoleOf(scope));
}

const char* ActivityName(ActivityKind kind) {
  return NameIn<ActivityKind::kWaiting>(kind,
                                        {kUnattributed, "library", "framework", "not seen", "data loading", "waiting"});
}

}  // namespace dlhook::analyzer::time
