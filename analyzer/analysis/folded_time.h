// The exact division of a run's time (time/time_division.h), with pieces that no table tells apart added up: tens of
// millions of pieces become some thousand.
#pragma once

#include <future>

#include "analyzer/analysis/layer_analysis.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline analysis {

// Pieces are alike if they are of one kind and thread, in steps that differ in nothing that Step says but times, batch
// and model, and that are all among the main steps or all not, in the same phase, and
//   calls    of one op and place, under the same stacks, in scopes and calls that are alike
//   scopes   that look alike, in scopes that do, all of the same places
//   gaps     between the same stacks, in scopes that look alike
class FoldedTime {
 public:
  FoldedTime(const TraceModel& model, const LayerAnalysis& analysis);
  static const FoldedTime& Of(const TraceModel& model, const LayerAnalysis& analysis) {
    return analysis.Derived<FoldedTime>(model, analysis);
  }

  // The pieces of a process. None crosses the start or end of the process, of a step or of a phase. One stands for all
  // that are alike: the first, with the sum of their shares. In the order of these first ones. If hardly any are alike,
  // all as they are.
  void ForEach(ProcessIndex process, absl::FunctionRef<void(const TimePiece&)> take) const;
  // The scopes of a process: the first of those that are alike and began in the same phase of steps that are, and how
  // many did.
  void ForEachScope(ProcessIndex process, absl::FunctionRef<void(ScopeIndex first, int64_t count)> take) const;

  // The steady steps of the kind that takes most time.
  const ComparedSteps& main_steps() const { return main_steps_; }

 private:
  struct Folded {
    std::vector<TimePiece> pieces;
    std::vector<std::pair<ScopeIndex, int64_t>> scopes;
    bool pays = false;  // else they are made one by one
  };
  class Timetable;
  class Folding;

  FoldedTime(const TraceModel& model, const LayerAnalysis& analysis, std::future<Folding> ready);

  const TraceModel& model_;
  const std::vector<StepTrack>& tracks_;
  const ComparedSteps main_steps_;
  std::vector<Folded> of_;  // by process
};

// The exact division of the time of steps: the pieces of FoldedTime that lie in them, by group of steps and phase.
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
