// See asked_work.h.
#include "analyzer/steps/asked_work.h"

#include <algorithm>

#include "analyzer/layers/gpu_places.h"

namespace dlhook::analyzer::inline steps {

std::vector<AskedWork> AskedWorkOf(const TraceModel& model, const StepTrack& track) {
  std::vector<AskedWork> works(track.steps.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const ThreadIndex thread = model.gpu.thread[activity];
    if (thread == kNone || model.threads[thread].process != track.process) continue;
    if (track.thread != kNone && track.thread != thread) continue;
    const int64_t asked_ns = GpuAskedNs(model, activity);
    const auto after = std::upper_bound(track.steps.begin(), track.steps.end(), asked_ns,
                                        [](int64_t ns, const Step& step) { return ns < step.start_ns; });
    if (after == track.steps.begin() || asked_ns >= (after - 1)->end_ns) continue;
    AskedWork& work = works[static_cast<size_t>(after - track.steps.begin()) - 1];
    if (model.gpu.end_ns[activity] == (after - 1)->end_ns) work.asked_ns = asked_ns;
    work.end_ns = std::max(work.end_ns, model.gpu.end_ns[activity]);
  }
  return works;
}

void EndWithAskedWork(const TraceModel& model, StepTrack& track) {
  int64_t busy_until_ns = INT64_MIN;
  const std::vector<AskedWork> works = AskedWorkOf(model, track);
  for (size_t i = 0; i < works.size(); ++i) {
    Step& step = track.steps[i];
    const int64_t limit_ns = i + 1 < works.size() ? track.steps[i + 1].start_ns : model.processes[track.process].end_ns;
    if (busy_until_ns <= step.start_ns) step.end_ns = std::max(step.end_ns, std::min(works[i].end_ns, limit_ns));
    busy_until_ns = std::max(busy_until_ns, works[i].end_ns);
  }
}

}  // namespace dlhook::analyzer::steps
