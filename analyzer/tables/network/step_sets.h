// Steps over which the table `layers` takes its means, and when they ran.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline tables {

// Steps over which a mean is taken: one kind and sort, all processes and threads.
struct StepSet {
  StepKind kind = StepKind::kUnknown;
  std::string sort;  // Step.sort
  std::vector<std::pair<ProcessIndex, const Step*>> steps;
  LeftOutSteps left_out;
  int64_t total_ns = 0;  // of `steps`
};

// The steady steps of the wanted kind, by default of training if there are any, else of inference, else whatever
// repeats: one set per sort, most time first. Empty: no such steps.
std::vector<StepSet> StepSetsOf(const std::vector<StepTrack>& tracks, std::optional<StepKind> wanted);

// When the steps of a set ran, by process and thread.
class StepTimes {
 public:
  StepTimes(const TraceModel& model, const StepSet& set);

  // By start; steps of different threads may overlap.
  const std::vector<Interval>& Of(ProcessIndex process) const { return all_[process]; }
  // kNone: steps of the whole process.
  std::map<ThreadIndex, IntervalFinder>& ByThread(ProcessIndex process) { return threads_[process]; }
  int64_t count() const { return count_; }
  int64_t total_ns() const { return total_ns_; }
  // Which steps these are, and how much they differ.
  const std::string& sentence() const { return sentence_; }

  // Whether the time is inside a step of this thread.
  bool Contains(ProcessIndex process, ThreadIndex thread, int64_t time_ns);

 private:
  std::vector<std::vector<Interval>> all_;
  std::vector<std::map<ThreadIndex, IntervalFinder>> threads_;
  ThreadIndex asked_of_ = kNone;                  // by Contains last …
  std::array<IntervalFinder*, 2> of_asked_ = {};  // … and the steps of that thread, and of its whole process
  int64_t count_ = 0;
  int64_t total_ns_ = 0;
  std::string sentence_;
};

}  // namespace dlhook::analyzer::tables
