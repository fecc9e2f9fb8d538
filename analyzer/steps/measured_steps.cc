#include "analyzer/steps/measured_steps.h"

#include <cmath>
#include <set>

#include "analyzer/calls/op_labels.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/call_loops.h"
#include "analyzer/steps/step_finder.h"
#include "analyzer/steps/step_symbols.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Without shapes, shorter patterns are found everywhere (the blocks of a matrix factorization).
constexpr size_t kMinPeriodByKind = 3;
constexpr size_t kFewSlices = 6;  // different products: of one layer, forward and backward, in two slices
constexpr double kMostlyRegular = 0.5;

void SortByStart(const TraceModel& model, std::vector<CallIndex>* calls) {
  const auto earlier = [&](CallIndex a, CallIndex b) { return model.calls.start_ns[a] < model.calls.start_ns[b]; };
  if (!std::is_sorted(calls->begin(), calls->end(), earlier)) std::stable_sort(calls->begin(), calls->end(), earlier);
}

std::vector<CallIndex> CallsOfThreads(const TraceModel& model, const std::vector<bool>& threads) {
  std::vector<CallIndex> calls;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    if (threads[model.calls.thread[call]]) calls.push_back(call);
  }
  SortByStart(model, &calls);
  return calls;
}

// By thread, in one pass, because there may be many threads.
std::vector<std::vector<CallIndex>> CallsByThread(const TraceModel& model, const std::vector<bool>& threads) {
  std::vector<std::vector<CallIndex>> calls(threads.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const ThreadIndex thread = model.calls.thread[call];
    if (threads[thread]) calls[thread].push_back(call);
  }
  for (std::vector<CallIndex>& of_thread : calls) SortByStart(model, &of_thread);
  return calls;
}

// How the finder sees calls.
struct Reading {
  const std::vector<bool>& repeats;  // in a loop inside a layer, which repeats as often as a batch has images
  SymbolTable table;
};

// Nested calls add no information, and differ between warm-up and later. XLA's products are known in windows only.
bool TakesPart(const TraceModel& model, CallIndex call) {
  const CallIndex parent = model.calls.parent[call];
  const bool is_outer = parent == kNone || model.ops[model.calls.op[parent]].family == kJaxTap.family;
  return is_outer && TellsSteps(model.ops[model.calls.op[call]]);
}

// `places`: the index in `calls` of each element of the sequence.
StepSequence MakeSequence(const TraceModel& model, const std::vector<CallIndex>& calls, const Reading& reading,
                          std::vector<uint32_t>& places) {
  StepSequence sequence;
  for (uint32_t place = 0; place < calls.size(); ++place) {
    const CallIndex call = calls[place];
    if (!TakesPart(model, call) || reading.repeats[call]) continue;
    places.push_back(place);
    sequence.symbol.push_back(reading.table.of_op[model.calls.op[call]]);
    sequence.start_ns.push_back(model.calls.start_ns[call]);
    sequence.end_ns.push_back(model.calls.EndOf(call));
  }
  sequence.symbols = reading.table.symbols;
  return sequence;
}

// A primitive is created before it is executed: creations directly before the first execution of a step belong to it.
int64_t StartWithCreations(const TraceModel& model, const std::vector<CallIndex>& calls, uint32_t place) {
  while (place > 0 && model.ops[model.calls.op[calls[place - 1]]].is_creation) --place;
  return model.calls.start_ns[calls[place]];
}

void SetBounds(const TraceModel& model, const std::vector<CallIndex>& calls, const std::vector<uint32_t>& places,
               const StepPattern& pattern, MeasuredTrack& track) {
  for (size_t i = 0; i < pattern.starts.size(); ++i) {
    MeasuredStep step;
    step.start_ns = StartWithCreations(model, calls, places[pattern.starts[i]]);
    step.phase = pattern.regular[i] ? Phase::kSteady : Phase::kOther;
    if (!track.steps.empty()) track.steps.back().end_ns = step.start_ns;
    track.steps.push_back(step);
  }
  MeasuredStep& last = track.steps.back();
  last.end_ns = last.start_ns;
  for (size_t i = places[pattern.starts.back()]; i < calls.size(); ++i) {  // with those that repeat others
    if (TakesPart(model, calls[i])) last.end_ns = std::max(last.end_ns, model.calls.EndOf(calls[i]));
  }
}

void CountGpuWork(const TraceModel& model, const SameWork& same_work, CallIndex call, MeasuredStep& step) {
  const Op& op = model.ops[model.calls.op[call]];
  const bool is_launch = op.launch() || IsGraphLaunch(op);
  const bool is_copy = op.copy() && IsKind(op, OpKind::kCopy);
  if ((!is_launch && !is_copy) || op.captured || same_work.IsNested(call)) return;
  if (is_launch) ++step.launches;
  if (is_copy) ++step.copies;
  if (is_copy) AddSaturated(static_cast<int64_t>(op.copy()->bytes), &step.copied_bytes);
}

void CountCalls(const TraceModel& model, const std::vector<CallIndex>& calls, MeasuredTrack& track) {
  const SameWork same_work(model);
  size_t at = 0;
  for (CallIndex call : calls) {
    const int64_t start_ns = model.calls.start_ns[call];
    const Op& op = model.ops[model.calls.op[call]];
    if (start_ns < track.steps[0].start_ns) {
      track.calls_before += op.is_creation ? 0 : 1;
      continue;
    }
    while (at + 1 < track.steps.size() && track.steps[at + 1].start_ns <= start_ns) ++at;
    MeasuredStep& step = track.steps[at];
    if (start_ns >= step.end_ns && step.end_ns > step.start_ns) continue;  // between requests
    ++(op.is_creation ? step.creations : step.calls);
    if (op.is_creation && !op.cache_hit) ++step.cache_misses;
    if (op.is_trial) ++step.trials;
    CountGpuWork(model, same_work, call, step);
  }
}

// The union of the calls' intervals, divided among the steps.
void MeasureInLibrary(const TraceModel& model, const std::vector<CallIndex>& calls, MeasuredTrack& track) {
  int64_t covered_until_ns = track.steps[0].start_ns;
  size_t at = 0;
  for (CallIndex call : calls) {
    int64_t begin_ns = std::max(model.calls.start_ns[call], covered_until_ns);
    const int64_t end_ns = model.calls.EndOf(call);
    covered_until_ns = std::max(covered_until_ns, end_ns);
    while (begin_ns < end_ns && at < track.steps.size()) {
      MeasuredStep& step = track.steps[at];
      begin_ns = std::max(begin_ns, step.start_ns);
      const int64_t piece_end_ns = std::min(end_ns, step.end_ns);
      if (piece_end_ns > begin_ns) step.in_library_ns += piece_end_ns - begin_ns;
      begin_ns = std::max(begin_ns, piece_end_ns);
      if (begin_ns < step.end_ns) break;
      ++at;
    }
  }
}

int64_t MedianOfLaterHalf(std::vector<int64_t> durations) {
  durations.erase(durations.begin(), durations.begin() + static_cast<ptrdiff_t>(durations.size() / 2));
  return QuartilesOf(std::move(durations)).median;
}

// Marks the first steps while they differ from the later half of the steady ones. Other work (an evaluation before
// training) is not warm-up and does not end it.
void MarkWarmUp(size_t period_calls, MeasuredTrack& track) {
  const std::vector<int64_t> durations = track.Durations(Phase::kSteady);
  if (durations.size() < 2) return;
  const double limit_ns = kWarmUpFactor * static_cast<double>(MedianOfLaterHalf(durations));
  for (size_t i = 0; i < track.steps.size() / 2; ++i) {
    MeasuredStep& step = track.steps[i];
    const bool regular = step.phase == Phase::kSteady;
    const bool slow = static_cast<double>(step.duration_ns()) > limit_ns;
    if (regular && !slow && step.cache_misses == 0 && step.trials == 0) return;
    if (regular || step.calls >= static_cast<int64_t>(period_calls)) step.phase = Phase::kWarmUp;
  }
}

std::optional<MeasuredTrack> MakeTrack(const TraceModel& model, const std::vector<CallIndex>& calls,
                                       const Reading& reading) {
  std::vector<uint32_t> places;
  const StepSequence sequence = MakeSequence(model, calls, reading, places);
  const StepPattern pattern = FindSteps(sequence);
  if (pattern.starts.empty()) return std::nullopt;
  MeasuredTrack track;
  SetBounds(model, calls, places, pattern, track);
  CountCalls(model, calls, track);
  MeasureInLibrary(model, calls, track);
  MarkWarmUp(pattern.period, track);
  track.period = pattern.period;
  track.regular_calls = pattern.coverage * static_cast<double>(sequence.size());
  return track;
}

std::vector<MeasuredTrack> TracksOfThreads(const TraceModel& model, const std::vector<bool>& threads,
                                           const Reading& reading) {
  std::vector<MeasuredTrack> tracks;
  const std::vector<std::vector<CallIndex>> calls = CallsByThread(model, threads);
  for (ThreadIndex thread = 0; thread < calls.size(); ++thread) {
    if (calls[thread].empty()) continue;
    if (auto track = MakeTrack(model, calls[thread], reading)) {
      track->thread = thread;
      tracks.push_back(*std::move(track));
    }
  }
  return tracks;
}

// All threads together, or each for itself if that explains clearly more: the order of threads that serve requests
// independently is accidental.
std::vector<MeasuredTrack> TracksOfProcess(const TraceModel& model, const std::vector<bool>& threads,
                                           const Reading& reading) {
  std::optional<MeasuredTrack> together = MakeTrack(model, CallsOfThreads(model, threads), reading);
  std::vector<MeasuredTrack> apart;
  if (absl::c_count(threads, true) > 1) apart = TracksOfThreads(model, threads, reading);
  double regular_calls = 0;
  for (const MeasuredTrack& track : apart) regular_calls += track.regular_calls;
  if (!together || together->regular_calls < 0.8 * regular_calls) return apart;
  apart.assign(1, {});
  apart.front() = *std::move(together);  // not copied: it may have a step for each call
  return apart;
}

// XLA passes slices of products to its threads, several at a time, and outside of its profiler's windows nothing says which
// belong together: the order of a few tells no steps, nor does that of one or two products.
bool AreFewSlices(const TraceModel& model, ProcessIndex process) {
  if (!OneDnnIsXlas(model.processes[process])) return false;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const bool is_op = model.scopes.look[scope].kind == ScopeKind::kXlaOp;
    if (is_op && model.threads[model.scopes.thread[scope]].process == process) return false;
  }
  std::set<OpIndex> ops;
  std::vector<std::pair<int64_t, int64_t>> times;
  for (CallIndex call = 0; call < model.calls.size() && ops.size() < kFewSlices; ++call) {
    if (model.threads[model.calls.thread[call]].process != process) continue;
    ops.insert(model.calls.op[call]);
    times.emplace_back(model.calls.start_ns[call], model.calls.EndOf(call));
  }
  if (ops.size() >= kFewSlices) return false;
  if (ops.size() < kMinPeriodByKind) return true;
  absl::c_sort(times);
  return absl::c_adjacent_find(times, [](const auto& a, const auto& b) { return b.first < a.second; }) != times.end();
}

// Of JAX outside of jit, whose operations are programs of their own: by the order in which programs run, in windows.
std::optional<MeasuredTrack> TrackByPrograms(const TraceModel& model, ProcessIndex process) {
  struct Run {
    int64_t start_ns = INT64_MAX, end_ns = 0;
    const std::string* program = nullptr;
  };
  std::map<int64_t, Run> runs;
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (scopes.look[scope].kind != ScopeKind::kXlaOp || model.threads[scopes.thread[scope]].process != process)
      continue;
    const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
    if (link.run == 0 || link.op >= model.compiled_ops.size()) continue;
    Run& run = runs[link.run];
    run.start_ns = std::min(run.start_ns, scopes.start_ns[scope]);
    run.end_ns = std::max(run.end_ns, scopes.EndOf(scope));
    run.program = &model.compiled_ops[link.op].program;
  }
  std::vector<Run> in_order;
  for (const auto& [number, run] : runs) in_order.push_back(run);
  std::ranges::stable_sort(in_order, {}, &Run::start_ns);
  std::map<std::string, uint32_t> symbols;
  StepSequence sequence;
  for (const Run& run : in_order) {
    sequence.symbol.push_back(symbols.emplace(*run.program, symbols.size()).first->second);
    sequence.start_ns.push_back(run.start_ns);
    sequence.end_ns.push_back(run.end_ns);
  }
  sequence.symbols.resize(symbols.size());
  const StepPattern pattern = FindSteps(sequence);
  if (pattern.coverage < kMostlyRegular || pattern.period < kMinPeriodByKind) return std::nullopt;
  MeasuredTrack track = {.period = pattern.period,
                         .regular_calls = pattern.coverage * static_cast<double>(sequence.size())};
  for (size_t i = 0; i < pattern.starts.size(); ++i) {
    const int64_t start_ns = in_order[pattern.starts[i]].start_ns;
    if (!track.steps.empty()) track.steps.back().end_ns = start_ns;
    track.steps.push_back({.start_ns = start_ns,
                           .end_ns = in_order.back().end_ns,
                           .phase = pattern.regular[i] ? Phase::kSteady : Phase::kOther});
  }
  return track;
}

std::vector<bool> ThreadsOf(const TraceModel& model, ProcessIndex process) {
  std::vector<bool> threads(model.threads.size());
  for (size_t i = 0; i < threads.size(); ++i) threads[i] = model.threads[i].process == process;
  return threads;
}

}  // namespace

void MeasureTrack(const TraceModel& model, MeasuredTrack& track) {
  if (track.steps.empty()) return;
  std::vector<bool> threads = ThreadsOf(model, track.process);
  if (track.thread != kNone) {
    threads.assign(threads.size(), false);
    threads[track.thread] = true;
  }
  const std::vector<CallIndex> calls = CallsOfThreads(model, threads);
  CountCalls(model, calls, track);
  MeasureInLibrary(model, calls, track);
}

const char* PhaseName(Phase phase) {
  constexpr const char* kNames[] = {"warm-up", "steady", "other"};
  static_assert(std::size(kNames) == static_cast<size_t>(Phase::kOther) + 1);
  return kNames[static_cast<size_t>(phase)];
}

int64_t MeasuredTrack::Count(Phase phase) const {
  return absl::c_count_if(steps, [&](const MeasuredStep& step) { return step.phase == phase; });
}

std::vector<int64_t> MeasuredTrack::Durations(Phase phase) const {
  std::vector<int64_t> durations;
  for (const MeasuredStep& step : steps) {
    if (step.phase == phase) durations.push_back(step.duration_ns());
  }
  const bool last_too = !steps.empty() && steps.back().phase == phase;
  if (last_too && durations.size() > 1) durations.pop_back();
  return durations;
}

std::vector<MeasuredTrack> FindStepsByCalls(const TraceModel& model) {
  std::vector<MeasuredTrack> all;
  const std::vector<bool> repeats = LoopRepeats(model);
  const Reading exact = {repeats, MakeSymbols(model.ops)};
  const Reading coarse = {repeats, MakeCoarseSymbols(model.ops)};
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    const std::vector<bool> threads = ThreadsOf(model, process);
    std::vector<MeasuredTrack> tracks;
    if (AreFewSlices(model, process)) continue;
    if (std::optional<MeasuredTrack> by_programs = TrackByPrograms(model, process)) {
      MeasureTrack(model, *by_programs);
      tracks.push_back(*std::move(by_programs));
    } else {
      tracks = TracksOfProcess(model, threads, exact);
    }
    const bool by_kind_only = tracks.empty();
    if (by_kind_only) {
      tracks = TracksOfProcess(model, threads, coarse);
      std::erase_if(tracks, [](const MeasuredTrack& track) { return track.period < kMinPeriodByKind; });
    }
    for (MeasuredTrack& track : tracks) {
      track.process = process;
      track.by_kind_only = by_kind_only;
      all.push_back(std::move(track));
    }
  }
  const auto length_ns = [](const MeasuredTrack& track) {
    return track.steps.back().end_ns - track.steps.front().start_ns;
  };
  absl::c_stable_sort(all, [&](const MeasuredTrack& a, const MeasuredTrack& b) { return length_ns(a) > length_ns(b); });
  return all;
}

int64_t QuantileOfSorted(const std::vector<int64_t>& values, double part) {
  const double place = part * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = place - static_cast<double>(below);
  return values[below] + std::llround(fraction * static_cast<double>(values[above] - values[below]));
}

Quartiles QuartilesOf(std::vector<int64_t> values) {
  if (values.empty()) return {};
  // A million durations of steps are sorted no further than this needs.
  const auto quantile = [&](double part) {
    const auto place = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), place, values.end());
    if (place + 1 != values.end()) std::iter_swap(place + 1, std::min_element(place + 1, values.end()));
    return QuantileOfSorted(values, part);
  };
  return {quantile(0.25), quantile(0.5), quantile(0.75)};
}

}  // namespace dlhook::analyzer::steps
