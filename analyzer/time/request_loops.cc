#include "analyzer/time/request_loops.h"

#include "analyzer/time/thread_states.h"

namespace dlhook::analyzer::inline time {
namespace {

constexpr int64_t kLeastPart = 10;               // 1/10
constexpr int64_t kLeastLoopNs = 1'000'000'000;  // threads are looked at some twenty times a second
constexpr int64_t kShortestLoopNs = 100'000'000;

// Two requests, and whether nothing between them is unknown because the run was read in parts or recording stopped.
bool IsBetweenRequests(const TraceModel& model, const Step& step, const Step& next) {
  return step.kind == StepKind::kInference && next.kind == StepKind::kInference && step.end_ns < next.start_ns &&
         std::none_of(
             model.read_spans.begin(), model.read_spans.end(),
             [&](const ReadSpan& span) { return step.end_ns < span.start_ns && span.start_ns <= next.start_ns; }) &&
         std::none_of(model.recording_stops.begin(), model.recording_stops.end(), [&](const RecordingStop& stop) {
           return step.end_ns <= stop.start_ns && stop.start_ns <= next.start_ns;
         });
}

}  // namespace

void CloseLoops(const TraceModel& model, std::vector<StepTrack>* tracks) {
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  for (StepTrack& track : *tracks) {
    const ThreadStates* const states = StatesOf(model, threads, track);
    if (states == nullptr) continue;
    std::vector<size_t> closed;
    StateSums all, between;
    for (size_t i = 0; i + 1 < track.steps.size(); ++i) {
      const Step &step = track.steps[i], &next = track.steps[i + 1];
      if (!IsBetweenRequests(model, step, next)) continue;
      closed.push_back(i);
      all.Add(states->In({step.start_ns, next.start_ns}));
      between.Add(states->In({step.end_ns, next.start_ns}));
    }
    // On a busy machine a thread that waited also waits for a processor. What it waits for may be its own other threads.
    // Of a short loop it is known whether the thread was blocked in it, not where: by less than half of what lies between.
    const bool lasts =
        all.wall_ns >= kLeastLoopNs
            ? between.running_ns * kLeastPart >= all.running_ns && 2 * between.running_ns >= between.blocked_ns()
            : all.wall_ns >= kShortestLoopNs && between.wall_ns * kLeastPart >= all.wall_ns &&
                  2 * all.blocked_ns() < between.wall_ns;
    if (!lasts) continue;
    for (const size_t i : closed) track.steps[i].end_ns = track.steps[i + 1].start_ns;
  }
}

}  // namespace dlhook::analyzer::time
