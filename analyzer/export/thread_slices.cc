// Merges calls and scopes: see thread_slices.h.
#include "analyzer/export/thread_slices.h"

#include <algorithm>
#include <tuple>

namespace dlhook::analyzer::inline exports {

void ThreadSlices::Run(ThreadIndex thread) {
  std::tie(scope_, scopes_end_) = model_.scopes.thread.RangeOf(thread);
  std::tie(call_, calls_end_) = model_.calls.RangeOf(thread);
  closed_ns_ = INT64_MIN;
  while (call_ < calls_end_ || scope_ < scopes_end_) {
    if (IsScopeNext()) {
      OpenScope(scope_++);
    } else {
      OpenCall(call_++);
    }
  }
  while (!open_.empty()) CloseInnermost();
}

bool ThreadSlices::IsScopeNext() const {
  if (scope_ == scopes_end_ || call_ == calls_end_) return scope_ < scopes_end_;
  const ScopeIndex around = model_.calls.ScopeOf(call_);
  return (around != kNone && around >= scope_) || model_.scopes.start_ns[scope_] <= model_.calls.start_ns[call_];
}

void ThreadSlices::OpenScope(ScopeIndex scope) {
  const ScopeColumns& scopes = model_.scopes;
  Open(false, scope, scopes.start_ns[scope], scopes.duration_ns[scope], false, scopes.parent[scope]);
}

void ThreadSlices::OpenCall(CallIndex call) {
  const CallColumns& calls = model_.calls;
  const CallIndex parent = calls.parent[call];
  Open(true, call, calls.start_ns[call], calls.duration_ns[call], parent != kNone,
       parent != kNone ? parent : calls.ScopeOf(call));
}

void ThreadSlices::Open(bool is_call, uint32_t index, int64_t start_ns, int64_t duration_ns, bool parent_is_call,
                        uint32_t parent) {
  const int64_t end_ns = start_ns + duration_ns;
  const auto is_around = [&](const ThreadSlice& slice) {
    if (parent != kNone && slice.is_call == parent_is_call && slice.index == parent) return true;
    return slice.start_ns <= start_ns && end_ns <= slice.end_ns;
  };
  while (!open_.empty() && !is_around(open_.back())) CloseInnermost();
  ThreadSlice slice = {is_call, index, std::max(start_ns, closed_ns_), end_ns, duration_ns};
  if (!open_.empty()) {
    slice.start_ns = std::max(slice.start_ns, open_.back().start_ns);
    slice.end_ns = std::min(slice.end_ns, open_.back().end_ns);
  }
  slice.end_ns = std::max(slice.end_ns, slice.start_ns);
  open_.push_back(slice);
  begin_(slice);
}

void ThreadSlices::CloseInnermost() {
  closed_ns_ = std::max(closed_ns_, open_.back().end_ns);
  end_(open_.back().end_ns);
  open_.pop_back();
}

}  // namespace dlhook::analyzer::exports
