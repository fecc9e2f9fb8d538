// What a step's time consists of: see step_work.h.
#include "analyzer/work/step_work.h"

#include "analyzer/model/same_work.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline work {

// For a process without steps, all its time if no process has steps.
std::vector<StepWork::Intervals> StepWork::IntervalsOf(const TraceModel& model, const std::vector<StepTrack>& tracks) {
  std::vector<Intervals> intervals(model.processes.size());
  bool any = false;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) intervals[track.process].push_back({step.start_ns, step.end_ns});
    any |= !track.steps.empty();
  }
  for (ProcessIndex process = 0; !any && process < model.processes.size(); ++process) {
    intervals[process].push_back({model.processes[process].start_ns, model.processes[process].end_ns});
  }
  return intervals;
}

StepWork::StepWork(const TraceModel& model, const LayerAnalysis& analysis, const FoldedTime& time)
    : model_(model), attribution_(analysis.attribution()), groups_(model, attribution_, LayersBy::kLayer, 0) {
  std::vector<Intervals> intervals = IntervalsOf(model, analysis.steps());
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    const bool has_steps = !intervals[process].empty();
    IntervalFinder& steps = steps_.emplace_back(std::move(intervals[process]));
    if (!has_steps) continue;
    time.ForEach(process, [&](const TimePiece& piece) {
      if (steps.Has(piece.start_ns)) SumsOf(DoingOf(piece)).share_ns += piece.share_ns;
    });
  }
  CountCalls();
  CountScopes(time);
}

size_t StepWork::DoingHash::operator()(const Doing& doing) const {
  return absl::HashOf(doing.group, doing.direction, doing.activity, doing.what);
}

DoneSums& StepWork::SumsOf(const Doing& doing) {
  DoneSums*& known = known_[doing];
  if (known == nullptr) known = &sums_[doing];
  return *known;
}

Doing StepWork::DoingOf(const TimePiece& piece) const {
  const auto [group, direction] = groups_.OfPiece(piece);
  Doing doing = {group, direction, piece.kind, kNone};
  if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting) {
    doing.what = model_.calls.op[piece.index];
  } else if (piece.kind == ActivityKind::kScope && IsOwnCode(model_, piece.index)) {
    doing.activity = ActivityKind::kNotSeen;
  } else if (piece.kind == ActivityKind::kScope) {
    doing.what = model_.scopes.look[piece.index].name;
  }
  return doing;
}

Doing StepWork::OfCall(CallIndex call) const {
  return {groups_.OfCall(call), attribution_.of_call[call].direction, ActivityKind::kCall, model_.calls.op[call]};
}

Doing StepWork::OfScope(ScopeIndex scope) const {
  return {groups_.OfScope(scope), attribution_.PlaceOfScope(scope).direction, ActivityKind::kScope,
          model_.scopes.look[scope].name};
}

// Of those that took time themselves.
void StepWork::CountScopes(const FoldedTime& time) {
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    time.ForEachScope(process, [&](ScopeIndex scope, int64_t count) {
      if (!steps_[process].Has(model_.scopes.start_ns[scope])) return;
      if (const auto known = known_.find(OfScope(scope)); known != known_.end()) known->second->begun += count;
    });
  }
}

void StepWork::CountCalls() {
  const SameWork same_work(model_);
  for (CallIndex call = 0; call < model_.calls.size(); ++call) {
    const ProcessIndex process = model_.threads[model_.calls.thread[call]].process;
    if (steps_[process].Has(model_.calls.start_ns[call]) && !same_work.IsNested(call)) ++SumsOf(OfCall(call)).calls;
  }
}

MainWork::MainWork(const TraceModel& model, const TableOptions& options)
    : steps(FoldedTime::Of(model, *options.analysis).main_steps()),
      analysis(*options.analysis, &steps.tracks),
      work(model, analysis, FoldedTime::Of(model, *options.analysis)) {}

}  // namespace dlhook::analyzer::work
