// Finds the step of each piece of time: see step_division.h.
#include "analyzer/analysis/step_division.h"

#include <algorithm>

namespace dlhook::analyzer::inline analysis {
namespace {

std::vector<StepDivision::Part> PartsIn(const StepGroup& group) {
  std::vector<StepDivision::Part> parts;
  for (const Step* step : group.steady) {
    if (group.overlaps) {
      const bool goes_on = !parts.empty() && step->start_ns <= parts.back().end_ns;
      if (!goes_on) parts.push_back({step->start_ns, step->end_ns, PhaseKind::kUnknown});
      parts.back().end_ns = std::max(parts.back().end_ns, step->end_ns);
      continue;
    }
    int64_t at_ns = step->start_ns;
    for (const PhaseInterval& phase : step->phases) {
      if (phase.start_ns > at_ns) parts.push_back({at_ns, phase.start_ns, PhaseKind::kUnknown});
      parts.push_back({phase.start_ns, phase.end_ns, phase.kind});
      at_ns = phase.end_ns;
    }
    if (at_ns < step->end_ns) parts.push_back({at_ns, step->end_ns, PhaseKind::kUnknown});
  }
  return parts;
}

}  // namespace

StepDivision::StepDivision(const TraceModel& model, const FoldedTime& time, const std::vector<StepGroup>& groups)
    : model_(model), time_(time), groups_(groups) {
  for (const StepGroup& group : groups) parts_.push_back(PartsIn(group));
}

void StepDivision::Divide(absl::FunctionRef<void(size_t, PhaseKind, const TimePiece&)> take) const {
  std::vector<size_t> next(groups_.size());  // part of each group
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    std::vector<size_t> own;
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].process == process) own.push_back(group);
    }
    if (own.empty()) continue;
    time_.ForEach(process, [&](const TimePiece& piece) {
      for (size_t group : own) {
        const std::vector<Part>& parts = parts_[group];
        size_t& at = next[group];
        while (at < parts.size() && parts[at].end_ns <= piece.start_ns) ++at;
        if (at < parts.size() && parts[at].start_ns <= piece.start_ns) take(group, parts[at].phase, piece);
      }
    });
  }
}

}  // namespace dlhook::analyzer::analysis
