#include "analyzer/time/sample_split.h"

#include "analyzer/time/thread_activity.h"
#include "preload/format/taps.h"

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

SampleSum SumOfOne(int64_t cpu_ns) { return {1, cpu_ns, static_cast<double>(cpu_ns) * static_cast<double>(cpu_ns)}; }

void AddTo(const SampleSums& from, SampleSums& to) {
  for (const auto& [place, sum] : from) to[place].Add(sum);
}

SampleSplit SplitBySamples(int64_t wall_ns, const SampleSums& places) {
  SampleSum all;
  for (const auto& [place, sum] : places) all.Add(sum);
  SampleSplit split = {.rest_ns = wall_ns};
  if (all.samples < kFewestOfRow || all.cpu_ns <= 0) return split;
  const auto cpu_ns = static_cast<double>(all.cpu_ns);
  const bool waits = cpu_ns + 2 * std::sqrt(all.square) < static_cast<double>(wall_ns);
  const int64_t computing_ns = waits ? all.cpu_ns : wall_ns;
  for (const auto& [place, sum] : places) {
    const double part = static_cast<double>(sum.cpu_ns) / cpu_ns;
    const auto ns = static_cast<int64_t>(part * static_cast<double>(computing_ns));
    split.parts.push_back({place, sum.samples, std::min(ns, split.rest_ns)});
    split.rest_ns -= split.parts.back().ns;
  }
  if (waits) return split;
  absl::c_max_element(split.parts, [](const SamplePart& a, const SamplePart& b) { return a.ns < b.ns; })->ns +=
      split.rest_ns;
  split.rest_ns = 0;
  return split;
}

bool MaySamplesTell(const TraceModel& model, const TimePiece& piece) {
  if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) return false;
  if (piece.kind != ActivityKind::kScope) return true;
  const ScopeKindFacts& facts = FactsOf(model.scopes.look[piece.index].kind);
  return facts.is_bracket || facts.is_wait;
}

GapSamples::GapSamples(const TraceModel& model) {
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) of_.push_back(Find(model, process));
}

}  // namespace dlhook::analyzer::time
