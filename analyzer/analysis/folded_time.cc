// Adds up pieces of time that are alike: see folded_time.h.
#include "analyzer/analysis/folded_time.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/model/recurring_keys.h"

namespace dlhook::analyzer::inline analysis {
namespace {

constexpr size_t kMostKinds = size_t{1} << 17;  // of pieces and of calls: with more of them, folding does not pay
constexpr size_t kMostSituations = size_t{1} << 13;

using SituationIndex = uint32_t;

template <typename Columns>
Place PlaceIn(const Columns& places, uint32_t index) {
  return index < places.size() ? places[index] : Place();
}

}  // namespace

// When the situation of a process changes: the sort of step and the phase on each of its tracks.
class FoldedTime::Timetable {
 public:
  Timetable(const TraceModel& model, ProcessIndex process, const std::vector<StepTrack>& tracks,
            const ComparedSteps& main)
      : process(process) {
    AddChange(model.processes[process].start_ns, 1);
    AddChange(model.processes[process].end_ns, 0);
    for (const StepTrack& track : main.tracks) AddSteps(track, /*is_main=*/true);
    for (const StepTrack& track : tracks) AddSteps(track, /*is_main=*/false);
    std::sort(changes_.begin(), changes_.end());
    FindSituations();
  }

  std::vector<int64_t> Boundaries() const {
    std::vector<int64_t> boundaries;
    boundaries.reserve(changes_.size());
    for (const Change& change : changes_) boundaries.push_back(change.time_ns);
    return boundaries;
  }

  // Times are asked for in order; `at`: 0 at first.
  SituationIndex SituationAt(int64_t time_ns, size_t& at) const {
    while (at < changes_.size() && changes_[at].time_ns <= time_ns) ++at;
    return at == 0 ? 0 : changes_[at - 1].state;
  }
  bool has_few_situations() const { return situations_.size() <= kMostSituations; }

  const ProcessIndex process;

 private:
  // From now on a track is in this state; in the end, the process is in this situation.
  struct Change {
    int64_t time_ns = 0;
    uint32_t track = 0;
    uint32_t state = 0;
    auto operator<=>(const Change&) const = default;
  };

  void AddChange(int64_t time_ns, uint32_t state) {
    const bool is_same_time =
        !changes_.empty() && changes_.back().track == track_ && changes_.back().time_ns == time_ns;
    if (is_same_time) changes_.pop_back();
    changes_.push_back({time_ns, track_, state});
  }

  void AddSteps(const StepTrack& track, bool is_main) {
    if (track.process != process) return;
    ++track_;
    for (const Step& step : track.steps) {
      const uint32_t sort = is_main ? 1 : SortOf(step);
      AddChange(step.start_ns, sort);
      for (const PhaseInterval& phase : step.phases) {
        AddChange(phase.start_ns, sort + static_cast<uint32_t>(phase.kind));
        AddChange(phase.end_ns, sort);
      }
      AddChange(step.end_ns, 0);
    }
  }

  // Leaves room for the phases.
  uint32_t SortOf(const Step& step) {
    const auto next = static_cast<uint32_t>(sorts_.size() + 1) * 8;
    return sorts_.try_emplace({step.kind, step.is_warm_up, step.is_regular, step.has_scopes, step.sort}, next)
        .first->second;
  }

  void FindSituations() {
    RecurringKeys<std::tuple<SituationIndex, uint32_t, uint32_t>> transitions;
    std::vector<SituationIndex> leads_to;
    SituationIndex now = situations_.IndexOf(std::vector<uint32_t>(track_ + 1));
    for (Change& change : changes_) {
      if (!has_few_situations()) return;
      const uint32_t transition = transitions.IndexOf({now, change.track, change.state});
      if (transition == leads_to.size()) {
        std::vector<uint32_t> states = situations_[now];
        states[change.track] = change.state;
        leads_to.push_back(situations_.IndexOf(states));
      }
      change.state = now = leads_to[transition];
    }
  }

  std::map<std::tuple<StepKind, bool, bool, bool, std::string>, uint32_t> sorts_;
  std::vector<Change> changes_;
  uint32_t track_ = 0;                               // the last one; 0: the process itself
  RecurringKeys<std::vector<uint32_t>> situations_;  // state of each track
};

FoldedTime::FoldedTime(const TraceModel& model, const LayerAnalysis& analysis)
    : model_(model),
      attribution_(analysis.attribution()),
      tracks_(analysis.steps()),
      main_steps_(MainSteps(tracks_)),
      paths_(analysis.Derived<ScopePaths>(model)),
      of_(model.processes.size()) {
  CompareCalls();
}

void FoldedTime::CompareCalls() {
  const CallColumns& calls = model_.calls;
  RecurringKeys<std::tuple<OpIndex, uint32_t, PathIndex, StackIndex, FrameIndex, LayerIndex, LayerDirection>> kinds;
  for (CallIndex call = 0; call < calls.size() && kinds.size() <= kMostKinds;
       ++call) {  // parents precede their children
    const CallIndex parent = calls.parent[call];
    const auto [layer, direction] = PlaceIn(attribution_.of_call, call);
    alike_calls_.push_back(
        kinds.IndexOf({calls.op[call], parent == kNone ? kNone : alike_calls_[parent], paths_.Of(calls.ScopeOf(call)),
                       model_.PythonStackOf(call), calls.NativeStackOf(call), layer, direction}));
  }
}

void FoldedTime::ForEach(ProcessIndex process, absl::FunctionRef<void(const TimePiece&)> take) const {
  std::optional<std::vector<TimePiece>>& pieces = of_[process];
  if (!pieces || pieces->empty()) {
    const Timetable timetable(model_, process, tracks_, main_steps_);
    if (!pieces) pieces = Fold(timetable);
    if (pieces->empty()) return DivideTime(model_, process, timetable.Boundaries(), take);
  }
  for (const TimePiece& piece : *pieces) take(piece);
}

std::vector<TimePiece> FoldedTime::Fold(const Timetable& timetable) const {
  if (!timetable.has_few_situations() || alike_calls_.size() < model_.calls.size()) return {};
  RecurringKeys<Look> looks;
  std::vector<TimePiece> pieces;
  size_t at = 0;
  DivideTime(model_, timetable.process, timetable.Boundaries(), [&](const TimePiece& piece) {
    if (pieces.size() > kMostKinds) return;
    const uint32_t index = looks.IndexOf(LookOf(piece, timetable.SituationAt(piece.start_ns, at)));
    if (index == pieces.size()) {
      pieces.push_back(piece);
    } else {
      pieces[index].share_ns += piece.share_ns;
    }
  });
  if (pieces.size() > kMostKinds) pieces.clear();
  return pieces;
}

FoldedTime::Look FoldedTime::LookOf(const TimePiece& piece, uint32_t situation) const {
  switch (piece.kind) {
    case ActivityKind::kCall:
    case ActivityKind::kWaiting:
      return {situation, piece.kind, piece.thread, alike_calls_[piece.index], {}, {}};
    case ActivityKind::kScope:
    case ActivityKind::kDataLoading:
      return {
          situation, piece.kind, piece.thread, paths_.Of(piece.index), {}, PlaceIn(attribution_.of_scope, piece.index)};
    case ActivityKind::kNotSeen:
      return {situation, piece.kind, piece.thread, paths_.Of(piece.gap.around), {piece.gap.before, piece.gap.after},
              {}};
    case ActivityKind::kUnattributed:
      break;
  }
  return {situation, piece.kind};
}

}  // namespace dlhook::analyzer::analysis
