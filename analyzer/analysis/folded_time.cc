#include "analyzer/analysis/folded_time.h"

#include "analyzer/model/beside.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline analysis {
namespace {

constexpr size_t kMostKinds = size_t{1} << 17;  // of pieces and of calls: with more of them, folding does not pay
constexpr size_t kMostSituations = size_t{1} << 13;

using SituationIndex = uint32_t;

std::vector<Interval> TimeIn(const StepGroup& group) {
  std::vector<Interval> times;
  times.reserve(group.steady.size());
  for (const Step* step : group.steady) {
    const bool goes_on = group.overlaps && !times.empty() && step->start_ns <= times.back().end_ns;
    if (!goes_on) times.push_back({step->start_ns, step->end_ns});
    times.back().end_ns = std::max(times.back().end_ns, step->end_ns);
  }
  return times;
}

}  // namespace

// When the situation of a process changes: the sort of step and the phase on each of its tracks.
class FoldedTime::Timetable {
 public:
  Timetable(const TraceModel& model, ProcessIndex process, const std::vector<StepTrack>& tracks,
            const ComparedSteps& main)
      : process(process) {
    changes_.reserve(2 + MostChanges(tracks, /*is_main=*/false) + MostChanges(main.tracks, /*is_main=*/true));
    AddChange(model.processes[process].start_ns, 1);
    AddChange(model.processes[process].end_ns, 0);
    for (const StepTrack& track : main.tracks) AddSteps(track, /*is_main=*/true);
    for (const StepTrack& track : tracks) AddSteps(track, /*is_main=*/false);
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

  // Of AddSteps for all tracks.
  size_t MostChanges(const std::vector<StepTrack>& tracks, bool is_main) const {
    size_t most = 0;
    for (const StepTrack& track : tracks) {
      if (track.process != process) continue;
      for (const Step& step : track.steps) most += 2 + (is_main ? 0 : 2 * step.phases.size());
    }
    return most;
  }

  void AddChange(int64_t time_ns, uint32_t state) {
    const bool is_same_time =
        !changes_.empty() && changes_.back().track == track_ && changes_.back().time_ns == time_ns;
    if (is_same_time) changes_.pop_back();
    changes_.push_back({time_ns, track_, state});
  }

  void AddSteps(const StepTrack& track, bool is_main) {
    if (track.process != process) return;
    ++track_;
    const size_t before = changes_.size();
    for (const Step& step : track.steps) {
      const uint32_t sort = is_main ? 1 : SortOf(step);
      AddChange(step.start_ns, sort);
      for (size_t i = 0; i < step.phases.size() && !is_main; ++i) {
        AddChange(step.phases[i].start_ns, sort + static_cast<uint32_t>(step.phases[i].kind));
        AddChange(step.phases[i].end_ns, sort);
      }
      AddChange(step.end_ns, 0);
    }
    // Steps are in order of time, mostly.
    const auto own = changes_.begin() + static_cast<std::ptrdiff_t>(before);
    if (!std::is_sorted(own, changes_.end())) std::sort(own, changes_.end());
    std::inplace_merge(changes_.begin(), own, changes_.end());
  }

  // Leaves room for the phases.
  uint32_t SortOf(const Step& step) {
    const auto next = static_cast<uint32_t>(sorts_.size() + 1) * 8;
    return sorts_.try_emplace({step.kind, step.left_out, step.sort}, next).first->second;
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

  std::map<std::tuple<StepKind, LeftOut, std::string>, uint32_t> sorts_;
  std::vector<Change> changes_;
  uint32_t track_ = 0;                               // the last one; 0: the process itself
  RecurringKeys<std::vector<uint32_t>> situations_;  // state of each track
};

class FoldedTime::Folding {
 public:
  Folding(const TraceModel& model, const Attribution& attribution) : model_(model), attribution_(attribution) {
    CompareScopes();
    CompareCalls();
  }

  Folded Fold(const Timetable& timetable) const {
    Folded folded;
    if (!timetable.has_few_situations() || alike_calls_.size() < model_.calls.size()) return folded;
    AddAll(timetable, folded);
    folded.pays = folded.pieces.size() <= kMostKinds && folded.scopes.size() <= kMostKinds;
    return folded.pays ? folded : Folded();
  }

 private:
  // Equal for scopes that look alike, in scopes that are, of one place (the path's parent is one of these).
  struct AlikeScope {
    ScopePath path = {};
    Place place = {};
    friend bool operator==(const AlikeScope&, const AlikeScope&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const AlikeScope& scope) {
      return H::combine(std::move(hash), scope.path, scope.place.layer, scope.place.direction);
    }
  };
  struct Look {  // equal for pieces that are alike
    SituationIndex situation = 0;
    ActivityKind kind = ActivityKind::kUnattributed;
    ThreadIndex thread = kNone;
    uint32_t what = 0;  // of alike_calls_ or alike_scopes_
    std::pair<StackIndex, StackIndex> gap = {};
    friend bool operator==(const Look&, const Look&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Look& look) {
      return H::combine(std::move(hash), look.situation, look.kind, look.thread, look.what, look.gap);
    }
  };

  void CompareScopes() {
    const ScopeColumns& scopes = model_.scopes;
    alike_scopes_.reserve(scopes.size());
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {  // parents come first
      alike_scopes_.push_back(
          {{AlikeScopeOf(scopes.parent[scope]), scopes.look[scope]}, attribution_.PlaceOfScope(scope)});
    }
  }
  PathIndex AlikeScopeOf(ScopeIndex scope) const { return scope == kNone ? kNone : alike_scopes_.IndexAt(scope); }

  void CompareCalls() {
    const CallColumns& calls = model_.calls;
    RecurringKeys<std::tuple<OpIndex, uint32_t, PathIndex, StackIndex, FrameIndex, LayerIndex, LayerDirection>> kinds;
    for (CallIndex call = 0; call < calls.size() && kinds.size() <= kMostKinds; ++call) {  // parents come first
      const CallIndex parent = calls.parent[call];
      const auto [layer, direction] = attribution_.of_call[call];
      alike_calls_.push_back(kinds.IndexOf({calls.op[call], parent == kNone ? kNone : alike_calls_[parent],
                                            AlikeScopeOf(calls.ScopeOf(call)), model_.PythonStackOf(call),
                                            calls.NativeStackOf(call), layer, direction}));
    }
  }

  // Pieces that are alike as one, in the order of the first of them.
  struct FoldedPieces {
    void Add(const Look& look, const TimePiece& piece) {
      const uint32_t index = looks.IndexOf(look);
      if (index == pieces.size()) {
        pieces.push_back(piece);
      } else {
        pieces[index].share_ns += piece.share_ns;
      }
    }

    RecurringKeys<Look> looks;
    std::vector<TimePiece> pieces;
  };

  // On two processors: scopes and later pieces of time beside earlier ones. Of several threads, dividing can't begin in
  // the middle and takes as long as folding.
  void AddAll(const Timetable& timetable, Folded& folded) const {
    const std::vector<int64_t> boundaries = timetable.Boundaries();
    // Of a run that was read in parts there is too little.
    const bool is_divided = model_.read_spans.empty() && MayUseTwoProcessors();
    const double earlier_part = HasOneThread(model_, timetable.process) ? 0.57 : 0.75;
    const auto middle = static_cast<size_t>(static_cast<double>(boundaries.size()) * earlier_part);
    const int64_t middle_ns = is_divided ? boundaries[middle] : INT64_MAX;
    // Each on the stack of its own thread: beside one another in memory, they would take turns in the cache.
    auto adding_later = Beside([&, middle_ns] {
      AddScopes(timetable, folded);
      return is_divided ? Divide(timetable, boundaries, {middle_ns, INT64_MAX}) : FoldedPieces();
    });
    FoldedPieces all = Divide(timetable, boundaries, {INT64_MIN, middle_ns});
    const FoldedPieces later = adding_later.get();
    for (uint32_t i = 0; i < later.pieces.size(); ++i) all.Add(later.looks[i], later.pieces[i]);
    folded.pieces = std::move(all.pieces);
  }

  FoldedPieces Divide(const Timetable& timetable, const std::vector<int64_t>& boundaries, const Interval& time) const {
    FoldedPieces folded;
    size_t at = 0;
    const auto add = [&](const TimePiece& piece) {
      if (folded.pieces.size() > kMostKinds) return;
      folded.Add(LookOf(piece, timetable.SituationAt(piece.start_ns, at)), piece);
    };
    DivideTime(model_, timetable.process, boundaries, add, {time});
    return folded;
  }

  void AddScopes(const Timetable& timetable, Folded& folded) const {
    RecurringKeys<Look> looks;
    for (ThreadIndex thread = 0; thread < model_.threads.size(); ++thread) {
      if (model_.threads[thread].process != timetable.process) continue;
      const auto [first, end] = model_.scopes.thread.RangeOf(thread);
      size_t at = 0;
      for (ScopeIndex scope = first; scope < end && folded.scopes.size() <= kMostKinds; ++scope) {
        const SituationIndex situation = timetable.SituationAt(model_.scopes.start_ns[scope], at);
        const uint32_t index = looks.IndexOf(LookOfScope(ActivityKind::kScope, thread, scope, situation));
        if (index == folded.scopes.size()) folded.scopes.emplace_back(scope, 0);
        ++folded.scopes[index].second;
      }
    }
  }

  Look LookOf(const TimePiece& piece, SituationIndex situation) const {
    switch (piece.kind) {
      case ActivityKind::kCall:
      case ActivityKind::kWaiting:
        return {situation, piece.kind, piece.thread, alike_calls_[piece.index], {}};
      case ActivityKind::kScope:
      case ActivityKind::kDataLoading:
        return LookOfScope(piece.kind, piece.thread, piece.index, situation);
      case ActivityKind::kNotSeen:
        return {
            situation, piece.kind, piece.thread, AlikeScopeOf(piece.gap.around), {piece.gap.before, piece.gap.after}};
      case ActivityKind::kUnattributed:
        break;
    }
    return {situation, piece.kind};
  }

  Look LookOfScope(ActivityKind kind, ThreadIndex thread, ScopeIndex scope, SituationIndex situation) const {
    return {situation, kind, thread, AlikeScopeOf(scope), {}};
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  RecurringColumn<AlikeScope> alike_scopes_;
  CompactColumn<uint32_t, int16_t> alike_calls_;  // by call: equal for those that are alike. Cut short: hardly any are
};

FoldedTime::FoldedTime(const TraceModel& model, const LayerAnalysis& analysis)
    : FoldedTime(model, analysis,
                 Beside([&model, &attribution = analysis.attribution()] { return Folding(model, attribution); })) {}

FoldedTime::FoldedTime(const TraceModel& model, const LayerAnalysis& analysis, std::future<Folding> ready)
    : model_(model), tracks_(analysis.steps()), main_steps_(MainSteps(tracks_)) {
  const Folding folding = ready.get();
  for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
    of_.push_back(folding.Fold(Timetable(model, process, tracks_, main_steps_)));
  }
}

void FoldedTime::ForEach(ProcessIndex process, absl::FunctionRef<void(const TimePiece&)> take) const {
  if (!of_[process].pays) {
    return DivideTime(model_, process, Timetable(model_, process, tracks_, main_steps_).Boundaries(), take);
  }
  for (const TimePiece& piece : of_[process].pieces) take(piece);
}

void FoldedTime::ForEachScope(ProcessIndex process, absl::FunctionRef<void(ScopeIndex, int64_t)> take) const {
  for (const auto& [scope, count] : of_[process].scopes) take(scope, count);
  for (ThreadIndex thread = 0; thread < model_.threads.size() && !of_[process].pays; ++thread) {
    if (model_.threads[thread].process != process) continue;
    const auto [first, end] = model_.scopes.thread.RangeOf(thread);
    for (ScopeIndex scope = first; scope < end; ++scope) take(scope, 1);
  }
}

StepDivision::StepDivision(const TraceModel& model, const FoldedTime& time, const std::vector<StepGroup>& groups)
    : model_(model), time_(time), groups_(groups) {
  for (const StepGroup& group : groups) times_.emplace_back(TimeIn(group));
}

std::optional<PhaseKind> StepDivision::PhaseAt(size_t group, int64_t time_ns) const {
  const size_t step = times_[group].IndexAt(time_ns);
  if (step == TimeOf(group).size()) return std::nullopt;
  return groups_[group].overlaps ? PhaseKind::kUnknown : groups_[group].steady[step]->PhaseAt(time_ns);
}

void StepDivision::Divide(absl::FunctionRef<void(size_t, PhaseKind, const TimePiece&)> take) const {
  for (ProcessIndex process = 0; process < model_.processes.size(); ++process) {
    std::vector<size_t> own;
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].process == process) own.push_back(group);
    }
    if (own.empty()) continue;
    time_.ForEach(process, [&](const TimePiece& piece) {
      for (size_t group : own) {
        if (const auto phase = PhaseAt(group, piece.start_ns)) take(group, *phase, piece);
      }
    });
  }
}

}  // namespace dlhook::analyzer::analysis
