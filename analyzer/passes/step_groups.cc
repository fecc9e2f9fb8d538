// Steps that a table speaks of together: see step_groups.h.
#include "analyzer/passes/step_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer {
namespace {

void Sort(std::vector<const Step*>& steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) { return a->start_ns < b->start_ns; });
}

bool Overlap(const std::vector<const Step*>& steps) {
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i]->start_ns < steps[i - 1]->end_ns) return true;
  }
  return false;
}

}  // namespace

std::vector<StepGroup> GroupSteps(const std::vector<StepTrack>& tracks) {
  std::map<std::pair<ProcessIndex, IterationKind>, StepGroup> groups;
  std::map<std::pair<ProcessIndex, IterationKind>, bool> has_scopes;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      if (!step.is_warm_up && step.is_regular) has_scopes[{track.process, step.kind}] |= step.has_scopes;
    }
  }
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      StepGroup& group = groups[{track.process, step.kind}];
      group.process = track.process;
      group.kind = step.kind;
      if (step.is_warm_up) {
        group.warm_up.push_back(&step);
      } else if (step.is_regular && step.has_scopes == has_scopes[{track.process, step.kind}]) {
        group.steady.push_back(&step);
      } else {
        ++group.odd;
      }
    }
  }
  std::vector<StepGroup> ordered;
  for (auto& [key, group] : groups) {
    if (group.steady.empty()) continue;
    Sort(group.steady);
    Sort(group.warm_up);
    group.overlaps = Overlap(group.steady);
    ordered.push_back(std::move(group));
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const StepGroup& a, const StepGroup& b) {
    return DurationOf(a.steady) > DurationOf(b.steady);
  });
  return ordered;
}

int64_t DurationOf(const std::vector<const Step*>& steps) {
  int64_t sum_ns = 0;
  for (const Step* step : steps) sum_ns += step->end_ns - step->start_ns;
  return sum_ns;
}

std::string ProcessLabel(const TraceModel& model, ProcessIndex process) {
  return absl::StrCat("process ", model.processes[process].header.process().pid());
}

bool HasSeveralProcesses(const std::vector<StepGroup>& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const StepGroup& group) { return group.process != groups.front().process; });
}

}  // namespace dlhook::analyzer
