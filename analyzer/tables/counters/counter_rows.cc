// Rows of counters by activity: layers (or what they are folded into) and scopes. See counter_rows.h.
#include "analyzer/tables/counters/counter_rows.h"

#include "analyzer/model/limits.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kOtherThreads[] = "[other threads]";
constexpr char kOutside[] = "[outside of steps]";
constexpr int64_t kRowsOverTime = 100;  // upper bound, if no interval was requested and there are no steps

// Rows with keys, in the order in which these appear.
template <typename Key>
class KeyedRows : public CounterRows {
 public:
  using CounterRows::CounterRows;

 protected:
  template <typename Make>
  size_t Row(const Key& key, Make make) {
    const auto [at, is_new] = numbers_.try_emplace(key, rows_.size());
    if (is_new) rows_.push_back(make());
    return at->second;
  }

 private:
  std::map<Key, size_t> numbers_;
};

class LayerRows : public KeyedRows<std::pair<GroupIndex, LayerDirection>> {
 public:
  LayerRows(const TraceModel& model, const TableOptions& options)
      : groups_(model, options.analysis->attribution(), options.RowsOf("layers"), options.layers_depth),
        has_models_(groups_.HasSeveralModels()) {
    columns_ = {
        {As(Role::kName, TextColumn("layer")),
         "Layer as in the table layers, or what --by asks for; [not seen: native code or Python], [data loading], "
         "[waiting]: a thread was in none; [other threads]: threads without recorded calls while no thread did "
         "anything known; [not sampled]: the process counted it, but no reading of a thread.",
         &CounterRow::name},
        {As(Role::kKey, TextColumn("direction")),
         "forward, backward-data …; recompute: forward pass for the backward pass.", &CounterRow::direction},
        {As(Role::kKey, TextColumn("model")), "The network, if there are several.", &CounterRow::model}};
    columns_.Find("model")->detail = !has_models_;
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    const GroupPlace place = groups_.OfPiece(piece);
    if (piece.is_of_other_threads) return Row({kNone, place.direction}, [] { return CounterRow{kOtherThreads}; });
    return Row({place.group, place.direction}, [&] {
      const LayerGroup& group = groups_.groups()[place.group];
      CounterRow row = {group.label};
      if (place.direction != LayerDirection::kUnknown) row.direction = LayerDirectionName(place.direction);
      if (has_models_) row.model = KnownText(group.model);
      return row;
    });
  }

 private:
  const LayerGroups groups_;
  const bool has_models_;
};

class ScopeRows : public KeyedRows<std::string> {
 public:
  explicit ScopeRows(const TraceModel& model) : model_(model) {
    columns_ = {{As(Role::kKey, TextColumn("scope")),
                 "Innermost scope around it: an op of the framework, a range of the program.", &CounterRow::name}};
  }

  size_t RowOf(ProcessIndex, const CountedPiece& piece) override {
    const std::string name = NameOf(piece);
    return Row(name, [&] { return CounterRow{name}; });
  }

 private:
  std::string NameOf(const CountedPiece& piece) const {
    ScopeIndex scope = kNone;
    if (piece.kind == ActivityKind::kScope || piece.kind == ActivityKind::kDataLoading) scope = piece.index;
    if (piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting)
      scope = model_.calls.ScopeOf(piece.index);
    if (scope != kNone) return ScopeLabel(model_, scope);
    if (piece.is_of_other_threads) return kOtherThreads;
    return piece.kind == ActivityKind::kUnattributed ? kUnattributed : "[in no scope]";
  }

  const TraceModel& model_;
};

// The step at a time on a thread. If threads have steps of their own, work of other threads belongs to those of the busiest.
class Steps : public StepIndex {
 public:
  Steps(const TraceModel& model, const std::vector<StepTrack>& tracks)
      : StepIndex(model, tracks), has_steps_(model.threads.size()), busiest_(model.processes.size(), kNone) {
    for (const StepTrack& track : tracks) {
      if (track.thread == kNone) continue;
      has_steps_[track.thread] = true;
      if (busiest_[track.process] == kNone) busiest_[track.process] = track.thread;
    }
  }

  // Null: in none.
  const NumberedStep* At(ProcessIndex process, ThreadIndex thread, int64_t time_ns) {
    const bool is_own = thread != kNone && has_steps_[thread];
    const uint32_t step = StepIndex::At(process, is_own ? thread : busiest_[process], time_ns);
    return step == kNone ? nullptr : &steps()[step];
  }

 private:
  std::vector<bool> has_steps_;       // by thread
  std::vector<ThreadIndex> busiest_;  // by process
};

// Rows that belong to a process.
template <typename Key>
class RowsOfProcesses : public KeyedRows<Key> {
 protected:
  RowsOfProcesses(const TraceModel& model, bool in_order, const TypedColumns<CounterRow>& columns)
      : KeyedRows<Key>(in_order), model_(model) {
    this->columns_ = {{ProcessColumn(model.processes.size() > 1), &CounterRow::process}};
    this->columns_.Add(columns);
  }
  Cell Pid(ProcessIndex process) const { return int64_t{model_.processes[process].pid}; }

  const TraceModel& model_;
};

// Process, step's kind, phase, whether it is of the warm-up.
class PhaseRows : public RowsOfProcesses<std::tuple<ProcessIndex, std::optional<StepKind>, PhaseKind, bool>> {
 public:
  PhaseRows(const TraceModel& model, const TableOptions& options)
      : RowsOfProcesses(
            model, /*in_order=*/false,
            {{As(Role::kKey, TextColumn("step")),
              "training, validation, inference; unknown where the direction of calls isn't.", &CounterRow::name},
             {As(Role::kKey, TextColumn("phase")),
              "other: outside of all phases; warm-up: the first steps, which are not in the other rows.",
              &CounterRow::phase},
             {NumberColumn("steps"), "Steps that the row covers.", &CounterRow::steps}}),
        steps_(model, options.analysis->steps()) {
    for (const StepTrack& track : options.analysis->steps()) {
      for (const Step& step : track.steps) ++counts_[{track.process, step.kind, step.is_warm_up}];
    }
  }

  std::vector<int64_t> Boundaries(ProcessIndex process) const override { return steps_.Boundaries(process); }

  size_t RowOf(ProcessIndex process, const CountedPiece& piece) override {
    const NumberedStep* const at = steps_.At(process, piece.thread, piece.start_ns);
    if (at == nullptr) {
      const auto outside = [&] { return CounterRow{kOutside, Pid(process)}; };
      return Row({process, std::nullopt, PhaseKind::kUnknown, false}, outside);
    }
    const Step& step = *at->step;
    const PhaseKind phase = step.is_warm_up ? PhaseKind::kUnknown : step.PhaseAt(piece.start_ns);
    return Row({process, step.kind, phase, step.is_warm_up}, [&] {
      return CounterRow{.name = StepKindName(step.kind),
                        .process = Pid(process),
                        .phase = step.is_warm_up ? "warm-up" : PhaseKindName(phase),
                        .steps = counts_.at({process, step.kind, step.is_warm_up})};
    });
  }

 private:
  Steps steps_;
  std::map<std::tuple<ProcessIndex, StepKind, bool>, int64_t> counts_;
};

// Process and step; null: in none.
class StepRows : public RowsOfProcesses<std::pair<ProcessIndex, const Step*>> {
 public:
  StepRows(const TraceModel& model, const TableOptions& options)
      : RowsOfProcesses(
            model, /*in_order=*/true,
            {{NumberColumn("index"), "Number of the step, from 0; not known: outside of steps.", &CounterRow::index},
             {TextColumn("kind"), "training, validation, inference; unknown where the direction of calls isn't.",
              &CounterRow::name},
             {TextColumn("phase"),
              "warm-up; steady: like most others; other: evaluation, a smaller batch and the like.",
              &CounterRow::phase},
             {Detail(TextColumn("thread")), "Where threads repeat independently.", &CounterRow::thread},
             {IntegerColumn("start", "ns", Better::kNeither), "Since the run began.", &CounterRow::start},
             {TimeColumn("duration"), "To the next step's start, or its own end.", &CounterRow::duration}}),
        steps_(model, options.analysis->steps()) {}

  std::vector<int64_t> Boundaries(ProcessIndex process) const override { return steps_.Boundaries(process); }

  size_t RowOf(ProcessIndex process, const CountedPiece& piece) override {
    const NumberedStep* const at = steps_.At(process, piece.thread, piece.start_ns);
    return Row({process, at == nullptr ? nullptr : at->step}, [&] {
      if (at == nullptr) return CounterRow{kOutside, Pid(process)};
      const Step& step = *at->step;
      const ThreadIndex thread = step.thread;
      return CounterRow{.name = StepKindName(step.kind),
                        .process = Pid(process),
                        .phase = step.is_warm_up   ? "warm-up"
                                 : step.is_regular ? "steady"
                                                   : "other",
                        .thread = thread == kNone ? Cell() : Cell(ThreadLabel(model_.threads[thread])),
                        .index = at->number,
                        .start = step.start_ns - model_.start_ns,
                        .duration = step.end_ns - step.start_ns};
    });
  }

 private:
  Steps steps_;
};

class IntervalRows : public RowsOfProcesses<std::pair<ProcessIndex, int64_t>> {
 public:
  IntervalRows(const TraceModel& model, int64_t interval_ns)
      : RowsOfProcesses(
            model, /*in_order=*/true,
            {{IntegerColumn("start", "ns", Better::kNeither), "Since the run began.", &CounterRow::start},
             {IntegerColumn("duration", "ns", Better::kNeither), "Of the interval.", &CounterRow::duration}}),
        interval_ns_(interval_ns) {}

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
    const int64_t interval = (std::clamp(piece.start_ns, model_.start_ns, last_ns) - model_.start_ns) / interval_ns_;
    return Row({process, interval}, [&] {
      const int64_t start_ns = interval * interval_ns_;
      return CounterRow{
          .process = Pid(process), .start = start_ns, .duration = std::min(interval_ns_, model_.wall_ns() - start_ns)};
    });
  }

 private:
  const int64_t interval_ns_;
};

}  // namespace

std::unique_ptr<CounterRows> RowsBy(By by, const TraceModel& model, const TableOptions& options) {
  switch (by) {
    case By::kPhase:
      return std::make_unique<PhaseRows>(model, options);
    case By::kStep:
      return std::make_unique<StepRows>(model, options);
    case By::kScope:
      return std::make_unique<ScopeRows>(model);
    default:
      return std::make_unique<LayerRows>(model, options);
  }
}

RowsOverTime RowsOverTimeOf(const TraceModel& model, const TableOptions& options, bool has_data) {
  if (options.interval_ns > 0) return {std::make_unique<IntervalRows>(model, options.interval_ns), {}};
  if (!has_data || !options.analysis->steps().empty()) return {RowsBy(By::kStep, model, options), {}};
  int64_t interval_ns = 1000 * 1000;
  // 1, 2, 10, 20, 40, 200 … ms
  for (int i = 0; model.wall_ns() / interval_ns >= kRowsOverTime; ++i) interval_ns *= i % 3 == 1 ? 5 : 2;
  return {std::make_unique<IntervalRows>(model, interval_ns),
          {absl::StrCat("No steps were found: rows are intervals of ", HumanTime(interval_ns), ".")}};
}

void SortByStart(Table* table) {
  const size_t start = *FindColumn(*table, "start");
  std::ranges::stable_sort(table->rows, {}, [start](const Row& row) {
    const auto* ns = std::get_if<int64_t>(&row[start]);
    return ns == nullptr ? INT64_MAX : *ns;
  });
}

}  // namespace dlhook::analyzer::tables
