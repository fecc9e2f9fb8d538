// Finds the step of each piece of time: see step_division.h.
#include "analyzer/analysis/step_division.h"

#include <algorithm>

namespace dlhook::analyzer::inline analysis {
namespace {

std::vector<Interval> TimeIn(const StepGroup& group) {
  std::vector<Interval> times;
  times.reserve(group.steady.size());
  for (const Step* step : group.steady) {
    const bool goes_on = group.overlaps && !times.empty() && step->start_ns <= times.back().end_ns;
    if (!goes_on) times.push_back({step->start_ns, step->end_ns});
    times.back().end_ns = std::max(times.back().end_ns, step->end_ns);
  }
  return times;
}

}  // namespace

StepDivision::StepDivision(const TraceModel& model, const FoldedTime& time, const std::vector<StepGroup>& groups)
    : model_(model), time_(time), groups_(groups) {
  for (const StepGroup& group : groups) times_.emplace_back(TimeIn(group));
}

std::optional<PhaseKind> StepDivision::PhaseAt(size_t group, int64_t time_ns) const {
  const size_t step = times_[group].IndexAt(time_ns);
  if (step == TimeOf(group).size()) return std::nullopt;
  if (groups_[group].overlaps) return PhaseKind::kUnknown;
  for (const PhaseInterval& phase : groups_[group].steady[step]->phases) {
    if (phase.start_ns <= time_ns && time_ns < phase.end_ns) return phase.kind;
  }
  return PhaseKind::kUnknown;
}

void StepDivision::Divide(absl::FunctionRef<void(size_t, PhaseKind, const TimePiece&)> take) const {
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    std::vector<size_t> own;
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].process == process) own.push_back(group);
    }
    if (own.empty()) continue;
    time_.ForEach(process, [&](const TimePiece& piece) {
      for (size_t group : own) {
        if (const auto phase = PhaseAt(group, piece.start_ns)) take(group, *phase, piece);
      }
    });
  }
}

}  // namespace dlhook::analyzer::analysis
