
#include "absl/strings/str_cat.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_sums.h"

namespace dlhook::analyzer::inline tables {

StepTimes::StepTimes(const TraceModel& model, const StepSet& set)
    : all_(model.processes.size()), threads_(model.processes.size()) {
  std::vector<std::map<ThreadIndex, std::vector<Interval>>> of_thread(model.processes.size());
  std::set<ThreadIndex> of_threads;
  for (const auto& [process, step] : set.steps) {
    all_[process].push_back({step->start_ns, step->end_ns});
    of_thread[process][step->thread].push_back(all_[process].back());
    total_ns_ += step->end_ns - step->start_ns;
    of_threads.insert(step->thread);
  }
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; };
  for (std::vector<Interval>& intervals : all_) absl::c_stable_sort(intervals, by_start);
  for (ProcessIndex process = 0; process < threads_.size(); ++process) {
    for (auto& [thread, intervals] : of_thread[process]) {
      absl::c_stable_sort(intervals, by_start);
      threads_[process].emplace(thread, std::move(intervals));
    }
  }
  count_ = std::ssize(set.steps);
  if (count_ > 0) {
    const std::string threads = of_threads.contains(kNone) ? ""
                                : of_threads.size() > 1    ? absl::StrCat(" of ", ThreadLabel(model, of_threads))
                                                        : absl::StrCat(" of thread ", ThreadLabel(model, of_threads));
    sentence_ =
        absl::StrCat("Mean of ", SteadySteps(count_, set.kind, set.sort), threads, " of ",
                     HumanTime(total_ns_ / count_), "; shares of time add up to it exactly.", set.left_out.Sentence());
    return;
  }
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    const ProcessInfo& info = model.processes[process];
    all_[process].push_back({info.start_ns, info.end_ns});
    threads_[process].emplace(kNone, all_[process]);
    total_ns_ += info.end_ns - info.start_ns;
  }
  sentence_ = absl::StrCat("No steady steps were found: times are of the whole run, ", HumanTime(total_ns_), ".");
}

bool StepTimes::Contains(ProcessIndex process, ThreadIndex thread, int64_t time_ns) {
  if (thread != asked_of_) {
    const auto finder = [&](ThreadIndex of) {
      const auto intervals = threads_[process].find(of);
      return intervals == threads_[process].end() ? nullptr : &intervals->second;
    };
    asked_of_ = thread;
    of_asked_ = {finder(thread), finder(kNone)};
  }
  return absl::c_any_of(of_asked_,
                        [&](IntervalFinder* intervals) { return intervals != nullptr && intervals->Has(time_ns); });
}

std::vector<StepSet> StepSetsOf(const std::vector<StepTrack>& tracks, std::optional<StepKind> wanted) {
  std::vector<StepKind> kinds = {StepKind::kTraining, StepKind::kInference, StepKind::kUnknown};
  if (wanted) kinds = {*wanted};
  for (StepKind kind : kinds) {
    std::map<std::string, StepSet> sorts;
    for (const StepTrack& track : tracks) {
      for (const Step& step : track.steps) {
        if (step.kind != kind) continue;
        StepSet& set = sorts.try_emplace(step.sort, StepSet{kind, step.sort, {}, {}, 0}).first->second;
        set.left_out.Add(step);
        if (!step.counts()) continue;
        set.steps.push_back({track.process, &step});
        set.total_ns += step.end_ns - step.start_ns;
      }
    }
    std::vector<StepSet> sets;
    for (auto& [sort, set] : sorts) {
      if (!set.steps.empty()) sets.push_back(std::move(set));
    }
    std::ranges::stable_sort(sets, std::ranges::greater(), &StepSet::total_ns);
    if (!sets.empty()) return sets;
  }
  return {};
}

}  // namespace dlhook::analyzer::tables
