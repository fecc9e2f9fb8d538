// Finds calls of finished threads by sequence number, and scopes by time.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

class CallFinder {
 public:
  // The calls and scopes of the queried threads must already be in `model` and not change.
  explicit CallFinder(const TraceModel& model) : model_(model) {}

  // kNone: not in the trace.
  CallIndex Find(ThreadIndex thread, uint64_t sequence);
  // The innermost scope of the thread at this time, or kNone.
  ScopeIndex ScopeAt(ThreadIndex thread, int64_t ns);

 private:
  struct ThreadCalls {
    CallIndex first = 0, last = 0;
    // If the numbers do not ascend with the calls (a log's coarse times): all of them, sorted. Else empty.
    std::vector<std::pair<uint64_t, CallIndex>> ordered;
    ScopeIndex first_scope = 0, last_scope = 0;
  };
  const ThreadCalls& CallsOf(ThreadIndex thread);

  const TraceModel& model_;
  std::map<ThreadIndex, ThreadCalls> threads_;
  ThreadIndex last_thread_ = kNone;
  const ThreadCalls* last_calls_ = nullptr;
  CallIndex last_found_ = 0;
};

}  // namespace dlhook::analyzer::model
