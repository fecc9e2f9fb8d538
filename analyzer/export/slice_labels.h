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

}  // namespace dlhook::analyzer::exports
