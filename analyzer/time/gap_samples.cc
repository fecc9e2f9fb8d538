// See gap_samples.h.
#include "analyzer/time/gap_samples.h"

#include <utility>

#include "analyzer/time/placed_times.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline time {
namespace {

std::vector<GapSample> Find(const TraceModel& model, ProcessIndex process) {
  const SampleColumns& samples = model.samples;
  std::vector<TimeOfThread> times;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (model.threads[samples.thread[i]].process == process && samples.call[i] == kNone)
      times.push_back({samples.time_ns[i], samples.thread[i], i});
  }
  std::vector<GapSample> found;
  size_t turn = 0;
  ForEachPlace(model, process, std::move(times), [&](const TimeOfThread& at, absl::Span<const TimePiece> parts) {
    const TimePiece* own = PartOf(at.thread, parts);
    TimePiece piece = own != nullptr ? *own : parts[turn++ % parts.size()];
    if (!MaySamplesTell(model, piece)) return;
    piece.start_ns = piece.end_ns = at.time_ns;
    found.push_back({at.index, piece});
  });
  return found;
}

}  // namespace

bool MaySamplesTell(const TraceModel& model, const TimePiece& piece) {
  if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) return false;
  if (piece.kind != ActivityKind::kScope) return true;
  const ScopeKindFacts& facts = FactsOf(model.scopes.look[piece.index].kind);
  return facts.is_bracket || facts.is_wait;
}

GapSamples::GapSamples(const TraceModel& model) {
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    of_.push_back(Find(model, process));
  }
}

}  // namespace dlhook::analyzer::time
