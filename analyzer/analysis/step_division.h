// The exact division of the time of steps: the pieces of FoldedTime that lie in them, by group of steps and phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "analyzer/analysis/folded_time.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline analysis {

class StepDivision {
 public:
  // All must outlive it. Overlapping steps of several threads count as one, without phases.
  StepDivision(const TraceModel& model, const FoldedTime& time, const std::vector<StepGroup>& groups);

  // Pieces of one process after another, in FoldedTime's order. A piece in steps of several groups comes once for each.
  void Divide(absl::FunctionRef<void(size_t group, PhaseKind phase, const TimePiece& piece)> take) const;

  // Empty: in no steady step of the group. Cheap if times are asked for nearly in order.
  std::optional<PhaseKind> PhaseAt(size_t group, int64_t time_ns) const;
  // The group's steady steps: ascending, disjoint.
  const std::vector<Interval>& TimeOf(size_t group) const { return times_[group].intervals(); }

 private:
  const TraceModel& model_;
  const FoldedTime& time_;
  const std::vector<StepGroup>& groups_;
  mutable std::vector<IntervalFinder> times_;  // by group
};

}  // namespace dlhook::analyzer::analysis
