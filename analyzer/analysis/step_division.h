// The exact division of the time of steps: the pieces of FoldedTime that lie in them, by group of steps and phase.
#ifndef DLHOOK_ANALYZER_ANALYSIS_STEP_DIVISION_H_
#define DLHOOK_ANALYZER_ANALYSIS_STEP_DIVISION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "analyzer/analysis/folded_time.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline analysis {

class StepDivision {
 public:
  // A part of the steady steps of a group: a phase, or what is between phases.
  struct Part {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    PhaseKind phase = PhaseKind::kUnknown;
  };

  // All must outlive it. Overlapping steps of several threads count as one, without phases.
  StepDivision(const TraceModel& model, const FoldedTime& time, const std::vector<StepGroup>& groups);

  // Pieces of one process after another, in FoldedTime's order. A piece in steps of several groups comes once for each.
  void Divide(absl::FunctionRef<void(size_t group, PhaseKind phase, const TimePiece& piece)> take) const;

  const std::vector<Part>& PartsOf(size_t group) const { return parts_[group]; }  // ascending, disjoint

 private:
  const TraceModel& model_;
  const FoldedTime& time_;
  const std::vector<StepGroup>& groups_;
  std::vector<std::vector<Part>> parts_;  // by group
};

}  // namespace dlhook::analyzer::analysis

#endif  // DLHOOK_ANALYZER_ANALYSIS_STEP_DIVISION_H_
