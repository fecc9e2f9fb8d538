// Names, kinds and arguments of the slices of a timeline.
#pragma once

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/export/timeline.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline exports {

struct SliceLabel {
  TextIndex name = kNoText;
  TextIndex kind = kNoText;
  TimelineArgs args;
};

class SliceLabels {
 public:
  SliceLabels(const TraceModel& model, const Attribution& attribution, TimelineTexts& texts);

  // Valid until the next one.
  const SliceLabel& OfCall(CallIndex call);
  const SliceLabel& OfScope(ScopeIndex scope);
  const SliceLabel& OfGpu(GpuIndex activity);
  const SliceLabel& OfAggregate(const AggregateRow& row);
  Place PlaceOfGpu(GpuIndex activity) const { return gpu_places_[activity]; }

  void Add(absl::string_view key, absl::string_view text);  // to the last one; nothing if empty
  void Add(absl::string_view key, int64_t value);

 private:
  // Keys that most slices have.
  enum Key : uint8_t { kLayer, kDirection, kLine, kStatus, kOperator, kKeys };

  const SliceLabel& OfOp(OpIndex op);
  SliceLabel LabelOfOp(const Op& op);
  void AddPlace(Place place);
  void AddLine(StackIndex stack);
  void AddText(Key key, TextIndex text);

  const TraceModel& model_;
  const Attribution& attribution_;
  TimelineTexts& texts_;
  const ActivityRules rules_;
  const std::vector<Place> gpu_places_;
  std::array<TextIndex, kKeys> keys_;
  std::vector<SliceLabel> ops_;         // by op; without name: not made yet
  std::vector<TextIndex> scope_names_;  // by name
  std::vector<TextIndex> lines_;        // by stack
  std::vector<TextIndex> layers_;       // by layer
  std::vector<TextIndex> kernels_;      // by kernel
  SliceLabel label_;
};

// The calls and scopes of one thread as slices that nest exactly.
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
