// Scopes of one process trace -> columns of the model, and the scope around each call.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/reader/python_builder.h"
#include "analyzer/reader/scope_nesting.h"
#include "proto/call.pb.h"

namespace dlhook::analyzer::inline reader {

// The scopes of one thread while its trace is read.
class ThreadScopes {
 public:
  // Leaves out scopes outside `parts`. Names and stacks are looked up in `names` immediately, because the next Reset
  // invalidates their ids.
  void Add(const trace::ScopeBatch& batch, const ReadParts& parts, PythonBuilder* names, Oddities* oddities);

  void Add(const RecordedScope& scope, const ReadParts& parts);

  // Nests the scopes, appends them to the model unless they take more than is left of `budget`, and sets those of the calls
  // from `first_call` on, which belong to this thread.
  void Finish(const ClockMap& clock, ThreadIndex thread, size_t first_call, TimeBudget* budget, TraceModel* model,
              Oddities* oddities);

  // Bounds of the nested scopes without parent, for the process's bounds; end before start if nothing was recorded.
  int64_t start_ns() const { return start_ns_; }
  int64_t end_ns() const { return end_ns_; }

 private:
  void AppendWindows(const ClockMap& clock, ThreadIndex thread, TraceModel* model) const;
  static void Join(const std::vector<NestedScopes::Calls>& scopes_of_calls, size_t first_call, TraceModel* model);

  StagedScopes scopes_;
  std::vector<std::tuple<uint64_t, uint64_t, bool>> windows_;  // start and end, in ticks, and whether it is a slow step
  uint64_t last_end_ticks_ = 0;
  bool in_order_ = true;
  int64_t start_ns_ = INT64_MAX;
  int64_t end_ns_ = INT64_MIN;
};

// For one process, once all its threads are finished: orders the windows from `first` on. A zero-length mark shows
// where a window begins; a mark outside any window belongs to one that was still open when recording ended: at the next
// of `stops_ns` (ascending), or at `end_ns`.
void FinishScopeWindows(size_t first, const std::vector<int64_t>& stops_ns, int64_t end_ns,
                        std::vector<ScopeWindow>* windows);

}  // namespace dlhook::analyzer::reader
