#include "analyzer/steps/step_index.h"

namespace dlhook::analyzer::inline steps {

StepIndex::StepIndex(const TraceModel& model, const std::vector<StepTrack>& tracks)
    : model_(model), of_process_(model.processes.size()), of_thread_(model.threads.size()) {
  for (const StepTrack& track : tracks) {
    const auto begin = static_cast<uint32_t>(steps_.size());
    int64_t number = 0;
    for (const Step& step : track.steps) steps_.push_back({&step, track.process, number++, step.counts()});
    const Range range = {begin, static_cast<uint32_t>(steps_.size()), begin};
    if (range.begin == range.end) continue;
    (track.thread == kNone ? of_process_[track.process] : of_thread_[track.thread]).push_back(range);
  }
}

uint32_t StepIndex::At(ProcessIndex process, ThreadIndex thread, int64_t time_ns) {
  if (thread != kNone) {
    for (Range& range : of_thread_[thread]) {
      if (const uint32_t step = Find(range, time_ns); step != kNone) return step;
    }
  }
  for (Range& range : of_process_[process]) {
    if (const uint32_t step = Find(range, time_ns); step != kNone) return step;
  }
  return kNone;
}

uint32_t StepIndex::OfCall(CallIndex call) {
  const ThreadIndex thread = model_.calls.thread[call];
  return At(model_.threads[thread].process, thread, model_.calls.start_ns[call]);
}

uint32_t StepIndex::Find(Range& range, int64_t time_ns) const {
  const auto is_in = [&](uint32_t step) {
    return step < range.end && steps_[step].step->start_ns <= time_ns && time_ns < steps_[step].step->end_ns;
  };
  if (is_in(range.last)) return range.last;
  if (is_in(range.last + 1)) return ++range.last;
  const auto after = std::upper_bound(steps_.begin() + range.begin, steps_.begin() + range.end, time_ns,
                                      [](int64_t ns, const NumberedStep& step) { return ns < step.step->start_ns; });
  if (after == steps_.begin() + range.begin) return kNone;
  range.last = static_cast<uint32_t>(after - steps_.begin()) - 1;
  return is_in(range.last) ? range.last : kNone;
}

PhaseKind StepIndex::PhaseAt(uint32_t step, int64_t time_ns) const {
  return step == kNone ? PhaseKind::kUnknown : steps_[step].step->PhaseAt(time_ns);
}

std::vector<int64_t> StepIndex::Boundaries(ProcessIndex process) const {
  std::vector<int64_t> times;
  for (const NumberedStep& step : steps_) {
    if (step.process != process) continue;
    times.insert(times.end(), {step.step->start_ns, step.step->end_ns});
    for (const PhaseInterval& phase : step.step->phases) times.insert(times.end(), {phase.start_ns, phase.end_ns});
  }
  absl::c_sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

}  // namespace dlhook::analyzer::steps
