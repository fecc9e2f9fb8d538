// The steps and phases of a program: see phases.h.
#include "analyzer/steps/phases.h"

#include "analyzer/steps/compared_steps.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

// Threads that repeat independently: each updates its own weights or, if nothing is trained, runs its own networks.
std::set<ThreadIndex> IndependentThreads(const ProcessMoments& all) {
  std::set<ThreadIndex> updating, running;
  for (size_t i = 0; i < all.moments.size(); ++i) {
    const MomentKind kind = all.moments.KindOf(i);
    if (kind != MomentKind::kUpdate && kind != MomentKind::kForward) continue;
    const Moment moment = all.moments[i];
    if (!moment.is_scope || moment.is_graph_node) continue;
    (kind == MomentKind::kUpdate ? updating : running).insert(moment.thread);
  }
  if (updating.size() > 1) return updating;
  const bool trains = all.has_updates || all.has_backward_scopes;
  if (!trains && running.size() > 1) return running;
  return {};
}

std::map<int64_t, ThreadIndex> ForwardThreads(const ProcessMoments& all) {
  std::map<int64_t, ThreadIndex> threads;
  for (const Moment moment : all.moments) {
    if (moment.kind == MomentKind::kForward && moment.link >= 0) threads[moment.link] = moment.thread;
  }
  return threads;
}

// The moments of each of `threads`, in order; a moment may belong to two threads.
std::map<ThreadIndex, Moments> MomentsByThread(const TraceModel& model, const Attribution& attribution,
                                               const ProcessMoments& all, const std::set<ThreadIndex>& threads) {
  const std::map<int64_t, ThreadIndex> forward_threads = ForwardThreads(all);
  std::map<ThreadIndex, Moments> by_thread;
  const auto add = [&](ThreadIndex thread, size_t i) {
    if (threads.contains(thread))
      by_thread.try_emplace(thread, model, attribution).first->second.Append(all.moments, i);
  };
  for (size_t i = 0; i < all.moments.size(); ++i) {
    const Moment moment = all.moments[i];
    add(moment.thread, i);
    // Gradients that one of autograd's threads computes for another thread.
    if (moment.kind != MomentKind::kBackward || moment.link < 0) continue;
    const auto forward = forward_threads.find(moment.link);
    if (forward == forward_threads.end() || forward->second == moment.thread) continue;
    add(forward->second, i);
  }
  return by_thread;
}

// The batch size of each run separately: those of one step may differ.
void SetBatchesOfRuns(const TraceModel& model, const Attribution& attribution, const StepTrack& track,
                      std::vector<StepItem>& items) {
  std::vector<BatchSpan*> runs;
  for (StepItem& item : items) {
    if (item.kind == MomentKind::kForward) runs.push_back(&item);
  }
  SetBatchSizes(model, attribution, track.process, track.thread, runs);
}

void SetBatchesOfSteps(const TraceModel& model, const Attribution& attribution, StepTrack& track) {
  std::vector<BatchSpan> steps;
  for (const Step& step : track.steps) steps.push_back({step.start_ns, step.end_ns, step.batch, step.batch_is_rows});
  std::vector<BatchSpan*> spans;
  for (BatchSpan& step : steps) spans.push_back(&step);
  SetBatchSizes(model, attribution, track.process, track.thread, spans);
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& step = track.steps[i];
    if (step.batch != steps[i].batch) step.samples = steps[i].batch * step.micro_steps * step.updates_of_most;
    step.batch = steps[i].batch;
    step.batch_is_rows = steps[i].is_rows;
  }
}

StepTrack TrackByScopes(const TraceModel& model, const Attribution& attribution, StepTrack track,
                        const Moments& moments, const NumberSet& trained_links) {
  std::vector<StepItem> items = MakeItems(moments, attribution, trained_links, {}, !model.scope_windows.empty());
  SetBatchesOfRuns(model, attribution, track, items);
  track.steps = AssembleSteps(model, attribution, moments, items, /*has_cuts=*/false);
  return track;
}

std::vector<StepTrack> TracksByScopes(const TraceModel& model, const Attribution& attribution, ProcessIndex process,
                                      const ProcessMoments& all) {
  const std::set<ThreadIndex> threads = IndependentThreads(all);
  StepTrack track = {.process = process};
  std::vector<StepTrack> tracks;
  if (threads.empty()) {
    tracks.push_back(TrackByScopes(model, attribution, track, all.moments, all.trained_links));
    return tracks;
  }
  for (const auto& [thread, moments] : MomentsByThread(model, attribution, all, threads)) {
    track.thread = thread;
    tracks.push_back(TrackByScopes(model, attribution, track, moments, all.trained_links));
  }
  return tracks;
}

// By step: the end of the last call that began in it.
std::vector<int64_t> LastCallEnds(const TraceModel& model, const StepTrack& track) {
  std::vector<int64_t> ends;
  for (const Step& step : track.steps) ends.push_back(step.start_ns);
  ForEachCallIn(model, track,
                [&](size_t step, CallIndex call) { ends[step] = std::max(ends[step], model.calls.EndOf(call)); });
  return ends;
}

// Steps with the bounds that the step finder found, except that requests end with their own work; what follows the
// gradients of an irregular one is validation.
StepTrack TrackByCalls(const TraceModel& model, const Attribution& attribution, const ProcessMoments& moments,
                       const StepTrack& found) {
  StepTrack track = {.process = found.process, .thread = found.thread, .by_kind_only = found.by_kind_only};
  std::vector<int64_t> cuts;
  for (const Step& step : found.steps) cuts.push_back(step.start_ns);
  std::vector<StepItem> items = MakeItems(moments.moments, attribution, moments.trained_links, cuts);
  std::erase_if(items, [&](const StepItem& item) { return item.start_ns < cuts.front(); });
  SetBatchesOfRuns(model, attribution, track, items);
  const std::vector<Step> told = AssembleSteps(model, attribution, moments.moments, items, /*has_cuts=*/true);
  const std::vector<int64_t> last_call_ends = LastCallEnds(model, found);
  track.steps.reserve(std::max(found.steps.size(), told.size()));
  size_t next = 0;
  for (const Step& step : found.steps) {
    const size_t first = track.steps.size();
    for (; next < told.size() && told[next].start_ns < step.end_ns; ++next) track.steps.push_back(told[next]);
    if (track.steps.size() == first) track.steps.push_back(step);  // it has neither directions nor scopes
    track.steps[first].start_ns = step.start_ns;
    for (size_t i = first; i < track.steps.size(); ++i) {
      Step& part = track.steps[i];
      part.is_regular = step.is_regular;
      part.end_ns = i + 1 < track.steps.size() ? track.steps[i + 1].start_ns : step.end_ns;
    }
    Step& last = track.steps.back();
    const int64_t last_call_end_ns = last_call_ends[static_cast<size_t>(&step - found.steps.data())];
    if (last.kind == StepKind::kInference) last.end_ns = std::min(last.end_ns, last_call_end_ns);
  }
  return track;
}

// The bounds and the contents of a step may come from different evidence and contradict each other: phases are cut to
// the inside of the step and to after the previous phase.
void CutToStep(Step& step) {
  step.end_ns = std::max(step.start_ns, step.end_ns);
  int64_t from_ns = step.start_ns;
  for (PhaseInterval& phase : step.phases) {
    phase.start_ns = std::clamp(phase.start_ns, from_ns, step.end_ns);
    phase.end_ns = std::clamp(phase.end_ns, phase.start_ns, step.end_ns);
    from_ns = phase.end_ns;
  }
  std::erase_if(step.phases, [](const PhaseInterval& phase) { return phase.start_ns == phase.end_ns; });
}

void SetHasScopes(const TraceModel& model, const ProcessMoments& moments, StepTrack& track) {
  if (!moments.has_op_scopes) return;
  const bool has_windows = HasWindows(model, track.process);
  for (Step& step : track.steps) {
    const ScopeWindow* const window = LastWindow(model, track.process, step.start_ns);
    const bool is_in_window = window != nullptr && window->end_ns >= LastPhaseEnd(step);
    step.has_scopes = !has_windows || is_in_window;
    step.is_kept_as_slow = is_in_window && window->is_slow_step;
  }
}

// Of a run that was read in parts, the steps that lie in one. At its edges steps are cut through, and what is left of them is taken for
// a step of another kind: the first and the last one of each part are none, but at the ends of the run.
void LeaveOutCut(const TraceModel& model, StepTrack& track) {
  std::vector<const ReadSpan*> spans;
  for (const ReadSpan& span : model.read_spans) {
    if (span.process == track.process) spans.push_back(&span);
  }
  if (spans.empty()) return;
  std::vector<Step> whole;
  auto step = track.steps.begin();
  for (const ReadSpan* span : spans) {
    const auto begin =
        std::find_if(step, track.steps.end(), [&](const Step& s) { return s.start_ns >= span->start_ns; });
    const auto end = std::find_if(begin, track.steps.end(), [&](const Step& s) { return s.end_ns > span->end_ns; });
    const auto first = begin + (span == spans.front() || begin == end ? 0 : 1);
    const auto last = end - (span == spans.back() || first == end ? 0 : 1);
    whole.insert(whole.end(), first, last);
    step = end;
  }
  track.steps = std::move(whole);
}

// What was recorded before and after a stop is of different steps.
void LeaveOutStopped(const TraceModel& model, StepTrack& track) {
  auto stop = model.recording_stops.begin();  // as steps, in order of time
  std::erase_if(track.steps, [&](const Step& step) {
    const auto is_over = [&](const RecordingStop& s) {
      return s.process != track.process || s.end_ns <= step.start_ns;
    };
    stop = std::find_if_not(stop, model.recording_stops.end(), is_over);
    return stop != model.recording_stops.end() && stop->start_ns < step.end_ns;
  });
}

std::vector<StepTrack> TracksOfProcess(const TraceModel& model, const Attribution& attribution, ProcessIndex process,
                                       std::optional<std::vector<StepTrack>>* found) {
  const ProcessMoments moments = CollectMoments(model, attribution, process);
  // A light tap records the updates of all steps, but the ops of some only: without updates, calls are better evidence.
  const bool by_scopes = (moments.has_updates || moments.has_backward_scopes ||
                          (moments.has_forward_scopes && (!HasWindows(model, process) || moments.has_compiled)));
  std::vector<StepTrack> tracks;
  if (by_scopes) tracks = TracksByScopes(model, attribution, process, moments);
  std::erase_if(tracks, [](const StepTrack& track) { return track.steps.empty(); });
  if (tracks.empty()) {
    if (!*found) *found = FindStepsByCalls(model);
    for (const StepTrack& track : **found) {
      if (track.process == process) tracks.push_back(TrackByCalls(model, attribution, moments, track));
    }
  }
  for (StepTrack& track : tracks) {
    for (Step& step : track.steps) CutToStep(step);
    LeaveOutCut(model, track);
    LeaveOutStopped(model, track);
    LeaveOutPauses(model, moments, &track);
    EndWithAskedWork(model, track);
  }
  std::erase_if(tracks, [](const StepTrack& track) { return track.steps.empty(); });
  for (StepTrack& track : tracks) {
    SetHasScopes(model, moments, track);
    for (Step& step : track.steps) step.thread = track.thread;
    SetBatchesOfSteps(model, attribution, track);
  }
  NameSteps(model, tracks);
  for (StepTrack& track : tracks) MarkWarmUp(model, track);
  return tracks;
}

}  // namespace

const char* PhaseKindName(PhaseKind kind) {
  return NameIn<PhaseKind::kInference>(kind, {"other", "input", "forward", "backward", "update", "inference"});
}

const char* StepKindName(StepKind kind) {
  return NameIn<StepKind::kInference>(kind, {"unknown", "training", "validation", "inference"});
}

const char* LeftOutName(LeftOut left_out) {
  return NameIn<LeftOut::kMuchLonger>(
      left_out, {"", "warm-up", "unlike the others", "not recorded", "slow", "the last", "much longer"});
}

std::string StepName(StepKind kind, const std::string& sort) {
  return sort.empty() ? StepKindName(kind) : absl::StrCat(StepKindName(kind), " (", sort, ")");
}

void SortByLength(std::vector<StepTrack>* tracks) {
  std::ranges::stable_sort(*tracks, std::greater<>(), [](const StepTrack& track) {
    return track.steps.back().end_ns - track.steps.front().start_ns;
  });
}

std::vector<StepTrack> FindStepTracks(const TraceModel& model, const Attribution& attribution) {
  std::optional<std::vector<StepTrack>> found;  // made if scopes do not tell the steps of a process
  std::vector<StepTrack> all;
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    for (StepTrack& track : TracksOfProcess(model, attribution, process, &found)) all.push_back(std::move(track));
  }
  // A loader's workers, which run transforms and call no library, serve no requests.
  std::set<uint32_t> train;
  for (const StepTrack& track : all) {
    const bool trains = absl::c_any_of(track.steps, [](const Step& step) { return step.kind == StepKind::kTraining; });
    if (trains) train.insert(model.processes[track.process].pid);
  }
  std::erase_if(all, [&](const StepTrack& track) {
    const ProcessInfo& process = model.processes[track.process];
    return process.calls == 0 && train.contains(process.parent_pid);
  });
  SortByLength(&all);
  all = Judged(std::move(all));
  for (StepTrack& track : all) CountWaitsForWorkers(model, track);
  return all;
}

std::vector<AskedWork> AskedWorkOf(const TraceModel& model, const StepTrack& track) {
  std::vector<AskedWork> works(track.steps.size());
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    const ThreadIndex thread = model.gpu.thread[activity];
    if (thread == kNone || model.threads[thread].process != track.process) continue;
    if (track.thread != kNone && track.thread != thread) continue;
    const int64_t asked_ns = GpuAskedNs(model, activity);
    const Step* const step = StepAt(track, asked_ns);
    if (step == nullptr) continue;
    AskedWork& work = works[static_cast<size_t>(step - track.steps.data())];
    if (model.gpu.end_ns[activity] == step->end_ns) work.asked_ns = asked_ns;
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
