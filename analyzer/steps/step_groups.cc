#include "analyzer/steps/step_groups.h"

#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

using Key = std::tuple<ProcessIndex, StepKind, std::string>;

bool Overlap(const std::vector<const Step*>& steps) {
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i]->start_ns < steps[i - 1]->end_ns) return true;
  }
  return false;
}

}  // namespace

void SortByStart(std::vector<const Step*>& steps) { std::ranges::stable_sort(steps, {}, &Step::start_ns); }

std::vector<StepGroup> GroupSteps(const std::vector<StepTrack>& tracks) {
  std::map<Key, StepGroup> groups;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      StepGroup& group = groups[{track.process, step.kind, step.sort}];
      group.process = track.process;
      group.kind = step.kind;
      group.sort = step.sort;
      group.threads.insert(step.thread);
      group.left_out.Add(step);
      if (step.counts()) group.steady.push_back(&step);
      if (step.left_out == LeftOut::kWarmUp) group.warm_up.push_back(&step);
      if (step.left_out == LeftOut::kMuchLonger) group.longer.push_back(&step);
    }
  }
  std::vector<StepGroup> ordered;
  for (auto& [key, group] : groups) {
    if (group.steady.empty()) continue;
    SortByStart(group.steady);
    SortByStart(group.warm_up);
    group.overlaps = Overlap(group.steady);
    ordered.push_back(std::move(group));
  }
  absl::c_stable_sort(
      ordered, [](const StepGroup& a, const StepGroup& b) { return DurationOf(a.steady) > DurationOf(b.steady); });
  return ordered;
}

std::vector<StepGroup> WholeRun(const TraceModel& model, std::vector<Step>* storage) {
  std::vector<StepGroup> groups;
  storage->reserve(model.processes.size());
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    const ProcessInfo& info = model.processes[process];
    storage->push_back({.start_ns = info.start_ns, .end_ns = info.end_ns});
    StepGroup& group = groups.emplace_back();
    group.process = process;
    group.steady = {&storage->back()};
  }
  return groups;
}

std::string SteadySteps(int64_t count, StepKind kind, const std::string& sort) {
  const std::string of_kind = kind == StepKind::kUnknown ? "" : absl::StrCat(StepKindName(kind), " ");
  const std::string of_sort = sort.empty() ? "" : absl::StrCat(" (", sort, ")");
  return absl::StrCat(count, " steady ", of_kind, count == 1 ? "step" : "steps", of_sort);
}

int64_t DurationOf(const std::vector<const Step*>& steps) {
  int64_t sum_ns = 0;
  for (const Step* step : steps) sum_ns += step->end_ns - step->start_ns;
  return sum_ns;
}

std::string ProcessLabel(const TraceModel& model, ProcessIndex process) {
  return absl::StrCat("process ", model.processes[process].pid);
}

std::string ThreadLabel(const ThreadData& thread) {
  return absl::StrCat(thread.name, thread.name.empty() ? "" : " ", thread.thread_id);
}

std::string ThreadLabel(const TraceModel& model, const std::set<ThreadIndex>& threads) {
  if (threads.contains(kNone)) return "all";
  if (threads.size() > 1) return absl::StrCat(threads.size(), " threads");
  return ThreadLabel(model.threads[*threads.begin()]);
}

bool HasThreads(const std::vector<StepGroup>& groups) {
  return absl::c_any_of(groups, [](const StepGroup& group) { return !group.threads.contains(kNone); });
}

bool HasSeveralProcesses(const std::vector<StepGroup>& groups) {
  return absl::c_any_of(groups, [&](const StepGroup& group) { return group.process != groups.front().process; });
}

std::map<std::string, std::vector<int64_t>> SteadyDurations(const StepTrack& steps) {
  std::map<std::string, std::vector<int64_t>> durations;
  const StepKind main_kind = MainKind(steps);
  for (const Step& step : steps.steps) {
    if (step.kind != main_kind || !step.counts()) continue;
    durations[StepName(step.kind, step.sort)].push_back(step.end_ns - step.start_ns);
  }
  return durations;
}

}  // namespace dlhook::analyzer::steps
