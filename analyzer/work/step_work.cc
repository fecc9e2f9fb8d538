// What a step's time consists of: see step_work.h.
#include "analyzer/work/step_work.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/calls/tensor_class.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline work {
namespace {

// The same as text for the table.
struct Words {
  std::string model, layer, direction, activity, what, purpose, problem, types, chosen, formats;
  auto operator<=>(const Words&) const = default;
};

class Wording {
 public:
  Wording(const TraceModel& model, const RunTotals& totals) : model_(model), names_(ReadScopeNames(model)) {
    const TensorClasses classes(model, totals);
    for (const Op& op : model.ops) is_move_.push_back(MoveOf(op, classes).has_value());
    first_scope_.assign(model.names.size(), kNone);
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      ScopeIndex& first = first_scope_[model.scopes.look[scope].name];
      if (first == kNone) first = scope;
    }
  }

  Words Of(const Doing& doing, const LayerGroup& group) const {
    const auto [index, direction, activity, what] = doing;
    Words words;
    words.model = group.model;
    words.layer = group.label;
    if (direction != LayerDirection::kUnknown) words.direction = LayerDirectionName(direction);
    words.activity = ActivityName(activity);
    if (activity == ActivityKind::kCall) Describe(model_.ops[what], is_move_[what], words);
    if (activity == ActivityKind::kWaiting) words.what = model_.ops[what].function;
    if (activity == ActivityKind::kScope) {
      words.what = ScopeLabel(model_, first_scope_[what]);
      if (names_[what].is_layout_copy) words.purpose = kMovesData;
    }
    return words;
  }

 private:
  static void Describe(const Op& op, bool is_move, Words& words) {
    words.what = KindLabel(op);
    if (is_move) words.purpose = kMovesData;
    words.problem = ProblemLabel(op);
    words.types = op.types;
    words.chosen = ChosenLabel(op);
    words.formats = FormatsLabel(op);
  }

  const TraceModel& model_;
  const std::vector<ScopeName> names_;
  std::vector<bool> is_move_;            // by op
  std::vector<ScopeIndex> first_scope_;  // by name
};

struct Sums : DoneSums {
  int64_t flops = 0;  // 0: not known
};

int64_t FlopsOf(const TraceModel& model, const Doing& doing, int64_t calls) {
  if (doing.activity != ActivityKind::kCall) return 0;
  return model.ops[doing.what].flops.value_or(0) * calls;
}

// A row: its words, and the sums behind them.
struct WorkLine : Words, Sums {
  int64_t steps = 1;
  int64_t whole_ns = 0;  // of all rows
};

TypedColumns<WorkLine> WorkColumns() {
  return {
      {As(Role::kName, TextColumn("layer")), "As the program names it.", &WorkLine::layer},
      {As(Role::kKey, TextColumn("direction")), "Forward or backward, where known.", Known(&WorkLine::direction)},
      {As(Role::kKey, Detail(TextColumn("activity"))),
       "library: calls; framework: its own ops; not seen: between them.", &WorkLine::activity},
      {As(Role::kKey, TextColumn("what")), "Kind of call, name of the framework's op.", Known(&WorkLine::what)},
      {As(Role::kKey, Detail(TextColumn("model"))), "The network, if there are several.", Known(&WorkLine::model)},
      {As(Role::kKey, Detail(TextColumn("purpose"))), "layout: converts a tensor to another memory format.",
       Known(&WorkLine::purpose)},
      {TimeColumn("time"), "Wall share in a mean step; of the whole run where there are no steps.",
       [](const WorkLine& row) { return Mean(row.share_ns, row.steps); }},
      {PercentColumn("time_percent", Better::kLower), "The same as a part of the steps' time.",
       [](const WorkLine& row) { return Percent(row.share_ns, row.whole_ns); }},
      {As(Role::kShape, Detail(TextColumn("problem"))), "Its size, as the library states it.",
       Known(&WorkLine::problem)},
      {As(Role::kChoice, Detail(TextColumn("types"))), "Data types; one where all are equal.", Known(&WorkLine::types)},
      {As(Role::kChoice, TextColumn("chosen")), "The implementation; if the library names none, the algorithm.",
       Known(&WorkLine::chosen)},
      {As(Role::kChoice, Detail(TextColumn("formats"))), "Memory format of every tensor.", Known(&WorkLine::formats)},
      {As(Role::kWeight, TimeColumn("wall_share")), "Over all steps; the rows add up to the whole.",
       &WorkLine::share_ns},
      {CallsColumn("Library calls, without those inside another call of the same kind; framework's ops."),
       [](const WorkLine& row) {
         if (row.activity == ActivityName(ActivityKind::kCall)) return Cell(row.calls);
         return row.activity == ActivityName(ActivityKind::kScope) ? Cell(row.begun) : Cell();
       }},
      {As(Role::kAmount, Detail(NumberColumn("flops"))), "Operations of all these calls, where known.",
       [](const WorkLine& row) { return row.flops == 0 ? Cell() : Cell(row.flops); }},
  };
}

int64_t StepCount(const TableOptions& options) {
  size_t steps = 0;
  for (const StepTrack& track : options.analysis->steps()) steps += track.steps.size();
  return static_cast<int64_t>(std::max<size_t>(steps, 1));
}

absl::StatusOr<Table> TableOf(const StepWork& division, const TraceModel& model, const TableOptions& options) {
  const Wording wording(model, *options.totals);
  std::map<Words, Sums> sums_of;
  int64_t whole_ns = 0;
  for (const auto& [doing, sums] : division.sums()) {
    Sums& row = sums_of[wording.Of(doing, division.Group(doing))];
    row.share_ns += sums.share_ns;
    row.calls += sums.calls;
    row.begun += sums.begun;
    row.flops += FlopsOf(model, doing, sums.calls);
    whole_ns += sums.share_ns;
  }
  const int64_t steps = StepCount(options);
  std::vector<WorkLine> rows;
  for (const auto& [words, sums] : sums_of) {
    if (sums.share_ns != 0 || sums.calls != 0) rows.push_back({words, sums, steps, whole_ns});
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &WorkLine::share_ns);
  return NewTable("work", "What each layer's time consists of", WorkColumns(), rows);
}

}  // namespace

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
    : model_(model), attribution_(analysis.attribution()), groups_(model, attribution_, By::kLayer, 0) {
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

absl::StatusOr<Table> WorkTable(const TraceModel& model, const TableOptions& options) {
  return TableOf(StepWork(model, *options.analysis, FoldedTime::Of(model, *options.analysis)), model, options);
}

absl::StatusOr<Table> MeanWorkTable(const TraceModel& model, const TableOptions& options) {
  const MainWork& main = MainWork::Of(model, options);
  const ComparedSteps& steps = main.steps;
  TableOptions own = options;
  own.analysis = &main.analysis;
  absl::StatusOr<Table> table = TableOf(main.work, model, own);
  if (table.ok() && steps.count() > 0) {
    table->notes.push_back(
        absl::StrCat("Mean of ", steps.count(), " steady ", StepWord(steps.kind), "s of ",
                     HumanTime(static_cast<double>(steps.total_ns()) / static_cast<double>(steps.count())),
                     "; the rows add up to it."));
  }
  return table;
}

}  // namespace dlhook::analyzer::work
