// Rows of counters by activity: layers (or what they are folded into) and scopes. See counter_rows.h.
#include "analyzer/tables/counters/counter_rows.h"

#include <tuple>

#include "analyzer/model/limits.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kOtherThreads[] = "[other threads]";

class LayerRows : public CounterRows {
 public:
  LayerRows(const TraceModel& model, const TableOptions& options)
      : model_(model),
        by_(options.layers_by),
        groups_(model, options.analysis->attribution(), by_, options.layers_depth) {
    std::set<std::string> models;
    for (const LayerGroup& group : groups_.groups()) {
      if (!group.model.empty()) models.insert(group.model);
    }
    has_models_ = models.size() > 1;
  }

  TypedColumns<size_t> Columns() const override {
    TypedColumns<size_t> columns = {
        {As(Role::kName, TextColumn("layer")),
         "Layer as in the table layers, or what --by asks for; [not seen: native code or Python], [data loading], "
         "[waiting]: a thread was in none; [other threads]: threads without recorded calls while no thread did "
         "anything known; [not sampled]: the process counted it, but no reading of a thread.",
         [this](size_t row) {
           if (row == kRest) return kNotSampled;
           return GroupOf(row) == nullptr ? kOtherThreads : GroupOf(row)->label.c_str();
         }},
        {As(Role::kKey, TextColumn("direction")),
         "forward, backward-data …; recompute: forward pass for the backward pass.",
         [this](size_t row) {
           const bool is_known = GroupOf(row) != nullptr && rows_.At(row).second != LayerDirection::kUnknown;
           return is_known ? Cell(LayerDirectionName(rows_.At(row).second)) : Cell();
         }},
        {As(Role::kKey, TextColumn("model")), "The network, if there are several.", [this](size_t row) {
           return has_models_ && GroupOf(row) != nullptr ? KnownText(GroupOf(row)->model) : Cell();
         }}};
    columns.Find("model")->detail = !has_models_;
    return columns;
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    const GroupPlace place = groups_.OfPiece(piece);
    return rows_.Of({piece.is_of_other_threads ? kNone : place.group, place.direction});
  }

 private:
  // Null: the rest, and other threads.
  const LayerGroup* GroupOf(size_t row) const {
    if (row == kRest || rows_.At(row).first == kNone) return nullptr;
    return &groups_.groups()[rows_.At(row).first];
  }

  const TraceModel& model_;
  const LayersBy by_;
  const LayerGroups groups_;
  bool has_models_ = false;
  Numbering<std::pair<GroupIndex, LayerDirection>> rows_;  // kNone: other threads
};

class ScopeRows : public CounterRows {
 public:
  explicit ScopeRows(const TraceModel& model) : model_(model) {}

  TypedColumns<size_t> Columns() const override {
    return {{As(Role::kKey, TextColumn("scope")),
             "Innermost scope around it: an op of the framework, a range of the program.",
             [this](size_t row) { return row == kRest ? kNotSampled : rows_.At(row); }}};
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    ScopeIndex scope = kNone;
    if (piece.kind == ActivityKind::kScope || piece.kind == ActivityKind::kDataLoading) scope = piece.index;
    if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting)
      scope = model_.calls.ScopeOf(piece.index);
    if (scope != kNone) return rows_.Of(ScopeLabel(model_, scope));
    if (piece.is_of_other_threads) return rows_.Of(kOtherThreads);
    return rows_.Of(piece.kind == ActivityKind::kUnattributed ? kUnattributed : "[in no scope]");
  }

 private:
  const TraceModel& model_;
  Numbering<std::string> rows_;
};

constexpr int64_t kRowsOverTime = 100;  // upper bound, if no interval was requested and there are no steps
constexpr char kOutside[] = "[outside of steps]";

// Applies to rows whose keys have the value; kRest has none.
template <typename Key>
TypedColumn<size_t> ProcessOfRow(const TraceModel& model, const Numbering<Key>& rows) {
  return {ProcessColumn(model.processes.size() > 1), [&model, &rows](size_t row) {
            if (row == CounterRows::kRest) return Cell();
            return Cell(int64_t{model.processes[rows.At(row).process].pid});
          }};
}

// A step and a phase of it, in one of the run's processes.
struct Moment {
  const StepTrack* track = nullptr;  // null: in no step
  size_t step = 0;
  PhaseKind phase = PhaseKind::kUnknown;
  const Step& at() const { return track->steps[step]; }
};

// Maps a time on a thread to its step. If threads have steps of their own, work of other threads belongs to the steps
// of the busiest.
class Steps {
 public:
  Steps(const TraceModel& model, const std::vector<StepTrack>& tracks) : tracks_(model.processes.size()) {
    for (const StepTrack& track : tracks) tracks_[track.process].push_back(&track);
  }

  std::vector<int64_t> Boundaries(ProcessIndex process) const {
    std::vector<int64_t> boundaries;
    for (const StepTrack* track : tracks_[process]) {
      for (const Step& step : track->steps) {
        boundaries.insert(boundaries.end(), {step.start_ns, step.end_ns});
        for (const PhaseInterval& phase : step.phases)
          boundaries.insert(boundaries.end(), {phase.start_ns, phase.end_ns});
      }
    }
    absl::c_sort(boundaries);
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    return boundaries;
  }

  Moment At(ProcessIndex process, ThreadIndex thread, int64_t time_ns) const {
    const StepTrack* track = TrackOf(process, thread);
    if (track == nullptr) return {};
    const auto after = std::ranges::upper_bound(track->steps, time_ns, {}, &Step::start_ns);
    if (after == track->steps.begin() || time_ns >= (after - 1)->end_ns) return {};
    Moment moment = {track, static_cast<size_t>(after - 1 - track->steps.begin()), PhaseKind::kUnknown};
    const auto& phases = moment.at().phases;
    const auto next = std::ranges::upper_bound(phases, time_ns, {}, &PhaseInterval::start_ns);
    if (next != phases.begin() && time_ns < (next - 1)->end_ns) moment.phase = (next - 1)->kind;
    return moment;
  }

 private:
  const StepTrack* TrackOf(ProcessIndex process, ThreadIndex thread) const {
    const std::vector<const StepTrack*>& tracks = tracks_[process];
    for (const StepTrack* track : tracks) {
      if (track->thread == thread && thread != kNone) return track;
    }
    return tracks.empty() ? nullptr : tracks.front();
  }

  std::vector<std::vector<const StepTrack*>> tracks_;  // by process
};

class PhaseRows : public CounterRows {
 public:
  PhaseRows(const TraceModel& model, const TableOptions& options)
      : model_(model), steps_(model, options.analysis->steps()) {
    for (const StepTrack& track : options.analysis->steps()) {
      for (const Step& step : track.steps) ++counts_[{track.process, step.kind, step.is_warm_up}];
    }
  }

  TypedColumns<size_t> Columns() const override {
    return {ProcessOfRow(model_, rows_),
            {As(Role::kKey, TextColumn("step")),
             "training, validation, inference; unknown where the direction of calls isn't.",
             [this](size_t row) {
               if (row == kRest) return kNotSampled;
               return rows_.At(row).kind ? StepKindName(*rows_.At(row).kind) : kOutside;
             }},
            {As(Role::kKey, TextColumn("phase")),
             "other: outside of all phases; warm-up: the first steps, which are not in the other rows.",
             [this](size_t row) {
               if (row == kRest || !rows_.At(row).kind) return Cell();
               return Cell(rows_.At(row).is_warm_up ? "warm-up" : PhaseKindName(rows_.At(row).phase));
             }},
            {NumberColumn("steps"), "Steps that the row covers.", [this](size_t row) {
               if (row == kRest || !rows_.At(row).kind) return Cell();
               const auto count = counts_.find({rows_.At(row).process, *rows_.At(row).kind, rows_.At(row).is_warm_up});
               return count == counts_.end() ? Cell() : Cell(count->second);
             }}};
  }

  std::vector<int64_t> Boundaries(ProcessIndex process) const override { return steps_.Boundaries(process); }

  size_t RowOf(ProcessIndex process, const CountedPiece& piece) override {
    const Moment moment = steps_.At(process, piece.thread, piece.start_ns);
    Key key = {process};
    if (moment.track != nullptr) {
      const Step& step = moment.at();
      key = {process, step.kind, step.is_warm_up ? PhaseKind::kUnknown : moment.phase, step.is_warm_up};
    }
    return rows_.Of(key);
  }

 private:
  struct Key {
    ProcessIndex process;
    std::optional<StepKind> kind = std::nullopt;  // none: in no step
    PhaseKind phase = PhaseKind::kUnknown;
    bool is_warm_up = false;
    auto operator<=>(const Key&) const = default;
  };
  const TraceModel& model_;
  const Steps steps_;
  std::map<std::tuple<ProcessIndex, StepKind, bool>, int64_t> counts_;
  Numbering<Key> rows_;
};

class StepRows : public CounterRows {
 public:
  StepRows(const TraceModel& model, const TableOptions& options)
      : model_(model), steps_(model, options.analysis->steps()) {}

  TypedColumns<size_t> Columns() const override {
    const auto of_step = [this](auto get) {
      return [this, get](size_t row) {
        return row == kRest || rows_.At(row).track == nullptr ? Cell() : Cell(get(rows_.At(row)));
      };
    };
    return {ProcessOfRow(model_, rows_),
            {NumberColumn("index"), "Number of the step, from 0; not known: outside of steps.",
             of_step([](const Key& key) { return static_cast<int64_t>(key.step); })},
            {TextColumn("kind"), "training, validation, inference; unknown where the direction of calls isn't.",
             [this](size_t row) {
               if (row == kRest) return kNotSampled;
               return rows_.At(row).track == nullptr ? kOutside : StepKindName(rows_.At(row).at().kind);
             }},
            {TextColumn("phase"), "warm-up; steady: like most others; other: evaluation, a smaller batch and the like.",
             of_step([](const Key& key) {
               return key.at().is_warm_up ? "warm-up" : key.at().is_regular ? "steady" : "other";
             })},
            {Detail(TextColumn("thread")), "Where threads repeat independently.", of_step([this](const Key& key) {
               return key.track->thread == kNone ? Cell() : Cell(ThreadLabel(model_.threads[key.track->thread]));
             })},
            {IntegerColumn("start", "ns", Better::kNeither), "Since the run began.",
             of_step([this](const Key& key) { return key.at().start_ns - model_.start_ns; })},
            {TimeColumn("duration"), "To the next step's start, or its own end.",
             of_step([](const Key& key) { return key.at().end_ns - key.at().start_ns; })}};
  }

  std::vector<int64_t> Boundaries(ProcessIndex process) const override { return steps_.Boundaries(process); }

  size_t RowOf(ProcessIndex process, const CountedPiece& piece) override {
    const Moment moment = steps_.At(process, piece.thread, piece.start_ns);
    const Key key = {process, moment.track, moment.step};
    return rows_.Of(key);
  }

  bool AreInOrder() const override { return true; }

 private:
  struct Key {
    ProcessIndex process;
    const StepTrack* track;  // null: in no step
    size_t step;
    const Step& at() const { return track->steps[step]; }
    auto operator<=>(const Key&) const = default;
  };
  const TraceModel& model_;
  const Steps steps_;
  Numbering<Key> rows_;
};

class IntervalRows : public CounterRows {
 public:
  IntervalRows(const TraceModel& model, int64_t interval_ns) : model_(model), interval_ns_(interval_ns) {}

  TypedColumns<size_t> Columns() const override {
    return {ProcessOfRow(model_, rows_),
            {IntegerColumn("start", "ns", Better::kNeither), "Since the run began.",
             [this](size_t row) { return row == kRest ? Cell() : Cell(StartOf(row)); }},
            {IntegerColumn("duration", "ns", Better::kNeither), "Of the interval.", [this](size_t row) {
               return row == kRest ? Cell() : Cell(std::min(interval_ns_, model_.wall_ns() - StartOf(row)));
             }}};
  }

  std::vector<int64_t> Boundaries(ProcessIndex) const override {
    const int64_t intervals = model_.wall_ns() / interval_ns_;
    Limit("intervals of this length in the run (--interval)", kMaxIntervals).Take(static_cast<uint64_t>(intervals));
    std::vector<int64_t> boundaries;
    for (int64_t i = 0; i <= intervals; ++i) boundaries.push_back(model_.start_ns + i * interval_ns_);
    if (boundaries.back() == model_.end_ns) boundaries.pop_back();
    return boundaries;
  }

  // Counts from before the run began, or after it ended, belong to the first or last interval.
  size_t RowOf(ProcessIndex process, const CountedPiece& piece) override {
    const int64_t last_ns = std::max(model_.start_ns, model_.end_ns - 1);
    const Key key = {process, (std::clamp(piece.start_ns, model_.start_ns, last_ns) - model_.start_ns) / interval_ns_};
    return rows_.Of(key);
  }

  bool AreInOrder() const override { return true; }

 private:
  struct Key {
    ProcessIndex process;
    int64_t interval;
    auto operator<=>(const Key&) const = default;
  };
  int64_t StartOf(size_t row) const { return rows_.At(row).interval * interval_ns_; }

  const TraceModel& model_;
  const int64_t interval_ns_;
  Numbering<Key> rows_;
};

}  // namespace

std::unique_ptr<CounterRows> RowsByLayer(const TraceModel& model, const TableOptions& options) {
  return std::make_unique<LayerRows>(model, options);
}

std::unique_ptr<CounterRows> RowsByScope(const TraceModel& model) { return std::make_unique<ScopeRows>(model); }

std::unique_ptr<CounterRows> RowsByPhase(const TraceModel& model, const TableOptions& options) {
  return std::make_unique<PhaseRows>(model, options);
}

std::unique_ptr<CounterRows> RowsByStep(const TraceModel& model, const TableOptions& options) {
  return std::make_unique<StepRows>(model, options);
}

std::unique_ptr<CounterRows> RowsByInterval(const TraceModel& model, int64_t interval_ns) {
  return std::make_unique<IntervalRows>(model, interval_ns);
}

void SortByStart(Table* table) {
  size_t start = 0;
  while (start < table->columns.size() && table->columns[start].name != "start") ++start;
  if (start == table->columns.size()) return;
  const auto time_of = [&](const Row& row) {
    const auto* ns = std::get_if<int64_t>(&row[start]);
    return ns == nullptr ? INT64_MAX : *ns;
  };
  absl::c_stable_sort(table->rows, [&](const Row& a, const Row& b) { return time_of(a) < time_of(b); });
}

int64_t IntervalFor(int64_t wall_ns) {
  int64_t interval_ns = 1000 * 1000;
  // 1, 2, 10, 20, 40, 200 … ms
  for (int i = 0; wall_ns / interval_ns >= kRowsOverTime; ++i) interval_ns *= i % 3 == 1 ? 5 : 2;
  return interval_ns;
}

}  // namespace dlhook::analyzer::tables
