#include "analyzer/model/call_finder.h"

namespace dlhook::analyzer::inline model {

const CallFinder::ThreadCalls& CallFinder::CallsOf(ThreadIndex thread) {
  if (thread == last_thread_) return *last_calls_;
  const auto [place, is_new] = threads_.try_emplace(thread);
  ThreadCalls& calls = place->second;
  if (is_new) {
    std::tie(calls.first, calls.last) = model_.calls.RangeOf(thread);
    const std::vector<uint64_t>& sequence = model_.calls.sequence;
    if (!std::is_sorted(sequence.begin() + calls.first, sequence.begin() + calls.last)) {
      for (CallIndex call = calls.first; call < calls.last; ++call) calls.ordered.emplace_back(sequence[call], call);
      absl::c_sort(calls.ordered);
    }
    std::tie(calls.first_scope, calls.last_scope) = model_.scopes.thread.RangeOf(thread);
  }
  last_thread_ = thread;
  last_calls_ = &calls;
  return calls;
}

CallIndex CallFinder::Find(ThreadIndex thread, uint64_t sequence) {
  const ThreadCalls& calls = CallsOf(thread);
  if (!calls.ordered.empty()) {
    const auto place = absl::c_lower_bound(calls.ordered, std::pair(sequence, CallIndex{0}));
    return place != calls.ordered.end() && place->first == sequence ? place->second : kNone;
  }
  // Lookups are almost in order: try after the last result first.
  const std::vector<uint64_t>& sequences = model_.calls.sequence;
  for (CallIndex call = last_found_; call < calls.last && call < last_found_ + 2; ++call) {
    if (call >= calls.first && sequences[call] == sequence) return last_found_ = call;
  }
  const auto first = sequences.begin() + calls.first, last = sequences.begin() + calls.last;
  const auto place = std::lower_bound(first, last, sequence);
  if (place == last || *place != sequence) return kNone;
  return last_found_ = static_cast<CallIndex>(place - sequences.begin());
}

ScopeIndex CallFinder::ScopeAt(ThreadIndex thread, int64_t ns) {
  const ThreadCalls& calls = CallsOf(thread);
  const ScopeColumns& scopes = model_.scopes;
  const auto starts = scopes.start_ns.begin();
  const auto after = std::upper_bound(starts + calls.first_scope, starts + calls.last_scope, ns);
  auto scope = static_cast<ScopeIndex>(after - starts);
  if (scope == calls.first_scope) return kNone;
  --scope;
  while (scope != kNone && scopes.EndOf(scope) <= ns) scope = scopes.parent[scope];
  return scope;
}

}  // namespace dlhook::analyzer::model
