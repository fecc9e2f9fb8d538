// What a step's time consists of: see step_work.h.
#include "analyzer/diff/step_work.h"

#include <algorithm>

#include "analyzer/model/same_work.h"

namespace dlhook::analyzer::inline diff {

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

StepWork::StepWork(const TraceModel& model, const TableOptions& options)
    : model_(model),
      attribution_(options.analysis->attribution()),
      groups_(model, attribution_, LayersBy::kLayer, 0),
      intervals_(IntervalsOf(model, options.analysis->steps())) {
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) DivideProcess(process);
  CountCalls();
  CountScopes();
}

void StepWork::DivideProcess(ProcessIndex process) {
  std::vector<int64_t> boundaries;
  for (const auto& [start_ns, end_ns] : intervals_[process]) boundaries.insert(boundaries.end(), {start_ns, end_ns});
  if (boundaries.empty()) return;
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  DivideTime(model_, process, boundaries, [&](const TimePiece& piece) {
    if (Counts(process, piece.start_ns)) SumsOf(DoingOf(piece)).share_ns += piece.share_ns;
  });
}

size_t StepWork::DoingHash::operator()(const Doing& doing) const {
  return absl::HashOf(doing.group, doing.direction, doing.activity, doing.what);
}

DoneSums& StepWork::SumsOf(const Doing& doing) {
  DoneSums*& sums = known_[doing];
  if (sums == nullptr) sums = &sums_[doing];
  return *sums;
}

bool StepWork::Counts(ProcessIndex process, int64_t ns) {
  const Intervals& intervals = intervals_[process];
  const auto holds = [&](size_t at) {
    return at < intervals.size() && intervals[at].first <= ns && ns < intervals[at].second;
  };
  if (holds(last_) || holds(++last_)) return true;
  const auto after = std::upper_bound(intervals.begin(), intervals.end(), ns,
                                      [](int64_t time, const auto& interval) { return time < interval.first; });
  last_ = static_cast<size_t>(after - intervals.begin());
  return last_ > 0 && holds(--last_);
}

Doing StepWork::DoingOf(const TimePiece& piece) const {
  switch (piece.kind) {
    case ActivityKind::kCall:
      return OfCall(piece.index);
    case ActivityKind::kScope:
      return OfScope(piece.index);
    case ActivityKind::kWaiting:
      return {groups_.waiting(), LayerDirection::kUnknown, piece.kind, model_.calls.op[piece.index]};
    case ActivityKind::kNotSeen:
      return {groups_.OfGap(piece.gap), attribution_.OfGap(piece.gap).place.direction, piece.kind, kNone};
    case ActivityKind::kDataLoading:
      return {groups_.data_loading(), LayerDirection::kUnknown, piece.kind, kNone};
    case ActivityKind::kUnattributed:
      break;
  }
  return {groups_.unattributed(), LayerDirection::kUnknown, ActivityKind::kUnattributed, kNone};
}

Doing StepWork::OfCall(CallIndex call) const {
  return {groups_.OfCall(call), attribution_.of_call[call].direction, ActivityKind::kCall, model_.calls.op[call]};
}

Doing StepWork::OfScope(ScopeIndex scope) const {
  const bool is_known = scope < attribution_.of_scope.size();
  const LayerDirection direction = is_known ? attribution_.of_scope[scope].direction : LayerDirection::kUnknown;
  return {groups_.OfScope(scope), direction, ActivityKind::kScope, model_.scopes.name[scope]};
}

// Of those that took time themselves.
void StepWork::CountScopes() {
  for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
    const ProcessIndex process = model_.threads[model_.scopes.thread[scope]].process;
    if (!Counts(process, model_.scopes.start_ns[scope])) continue;
    const auto found = known_.find(OfScope(scope));
    if (found != known_.end()) ++found->second->begun;
  }
}

void StepWork::CountCalls() {
  const SameWork same_work(model_);
  for (CallIndex call = 0; call < model_.calls.size(); ++call) {
    const ProcessIndex process = model_.threads[model_.calls.thread[call]].process;
    if (Counts(process, model_.calls.start_ns[call]) && !same_work.IsNested(call)) ++SumsOf(OfCall(call)).calls;
  }
}

}  // namespace dlhook::analyzer::diff
