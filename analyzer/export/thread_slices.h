// The calls and scopes of one thread as slices that nest exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline exports {

struct ThreadSlice {
  bool is_call = false;
  uint32_t index = 0;  // CallIndex or ScopeIndex
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t duration_ns = 0;  // as recorded; start and end are cut to what is around where the two disagree
};

// Calls nest in calls, and scopes in scopes. A call belongs to a scope by its number, but the time of a call that a library
// logged is coarse: where it begins before its scope, or ends after it, the slice is cut to the scope.
class ThreadSlices {
 public:
  using Begin = absl::FunctionRef<void(const ThreadSlice&)>;
  using End = absl::FunctionRef<void(int64_t end_ns)>;

  ThreadSlices(const TraceModel& model, Begin begin, End end) : model_(model), begin_(begin), end_(end) {}
  void Run(ThreadIndex thread);

 private:
  bool IsScopeNext() const;
  void Open(bool is_call, uint32_t index, int64_t start_ns, int64_t duration_ns, bool parent_is_call, uint32_t parent);
  void OpenScope(ScopeIndex scope);
  void OpenCall(CallIndex call);
  void CloseInnermost();

  const TraceModel& model_;
  const Begin begin_;
  const End end_;
  uint32_t call_ = 0, calls_end_ = 0;  // the next ones
  uint32_t scope_ = 0, scopes_end_ = 0;
  std::vector<ThreadSlice> open_;
  int64_t closed_ns_ = INT64_MIN;  // the end of the last slice that was closed
};

}  // namespace dlhook::analyzer::exports
