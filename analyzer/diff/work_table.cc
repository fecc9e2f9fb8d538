// Table `work`: see work_table.h.
#include "analyzer/diff/work_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/activity_labels.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/layout_moves.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline diff {
namespace {

// Of what is done again and again: place, kind of activity, and op or name.
using Doing = std::tuple<GroupIndex, LayerDirection, ActivityKind, uint32_t>;

struct Sums {
  int64_t share_ns = 0;
  int64_t calls = 0;
};

// The same in words, as the table has it.
struct Words {
  std::string model, layer, direction, activity, what, purpose, problem, types, chosen, formats;
  auto operator<=>(const Words&) const = default;
};

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// Of a process without steps, where no other has any: all its time.
std::vector<Intervals> IntervalsOf(const TraceModel& model, const std::vector<StepTrack>& tracks) {
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

class Division {
 public:
  Division(const TraceModel& model, const TableOptions& options)
      : model_(model),
        attribution_(options.analysis->attribution()),
        groups_(model, attribution_, LayersBy::kLayer, 0),
        intervals_(IntervalsOf(model, options.analysis->steps())) {
    for (ProcessIndex process = 0; process < model.processes.size(); ++process) DivideProcess(process);
    CountCalls();
  }

  const std::map<Doing, Sums>& sums() const { return sums_; }
  const LayerGroup& Group(const Doing& doing) const { return groups_.groups()[std::get<0>(doing)]; }

 private:
  void DivideProcess(ProcessIndex process) {
    std::vector<int64_t> boundaries;
    for (const auto& [start_ns, end_ns] : intervals_[process]) boundaries.insert(boundaries.end(), {start_ns, end_ns});
    if (boundaries.empty()) return;
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    DivideTime(model_, process, boundaries, [&](const TimePiece& piece) {
      if (Counts(process, piece.start_ns)) sums_[DoingOf(piece)].share_ns += piece.share_ns;
    });
  }

  bool Counts(ProcessIndex process, int64_t ns) const {
    const Intervals& intervals = intervals_[process];
    const auto after = std::upper_bound(intervals.begin(), intervals.end(), ns,
                                        [](int64_t time, const auto& interval) { return time < interval.first; });
    return after != intervals.begin() && ns < std::prev(after)->second;
  }

  Doing DoingOf(const TimePiece& piece) const {
    switch (piece.kind) {
      case ActivityKind::kCall:
        return OfCall(piece.index);
      case ActivityKind::kScope: {
        const bool is_known = piece.index < attribution_.of_scope.size();
        const LayerDirection direction =
            is_known ? attribution_.of_scope[piece.index].direction : LayerDirection::kUnknown;
        return {groups_.OfScope(piece.index), direction, piece.kind, model_.scopes.name[piece.index]};
      }
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

  Doing OfCall(CallIndex call) const {
    return {groups_.OfCall(call), attribution_.of_call[call].direction, ActivityKind::kCall, model_.calls.op[call]};
  }

  void CountCalls() {
    const SameWork same_work(model_);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ProcessIndex process = model_.threads[model_.calls.thread[call]].process;
      if (Counts(process, model_.calls.start_ns[call]) && !same_work.IsNested(call)) ++sums_[OfCall(call)].calls;
    }
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const LayerGroups groups_;
  const std::vector<Intervals> intervals_;
  std::map<Doing, Sums> sums_;
};

class Wording {
 public:
  Wording(const TraceModel& model, const RunTotals& totals) : model_(model), names_(ReadScopeNames(model)) {
    const TensorClasses classes(model, totals);
    for (const Op& op : model.ops) is_move_.push_back(MoveOf(op, classes).has_value());
    first_scope_.assign(model.names.size(), kNone);
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      ScopeIndex& first = first_scope_[model.scopes.name[scope]];
      if (first == kNone) first = scope;
    }
  }

  Words Of(const Doing& doing, const LayerGroup& group) const {
    const auto& [index, direction, activity, what] = doing;
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

std::vector<Column> Columns() {
  return {
      As(Role::kName, TextColumn("layer", "As the program names it.")),
      As(Role::kKey, TextColumn("direction", "Forward or backward, where known.")),
      As(Role::kKey, Detail(TextColumn("activity", "library: calls; framework: its own ops; Python: between them."))),
      As(Role::kKey, TextColumn("what", "Kind of call, name of the framework's op.")),
      As(Role::kKey, Detail(TextColumn("model", "The network, if there are several."))),
      As(Role::kKey, Detail(TextColumn("purpose", "layout: converts a tensor to another memory format."))),
      As(Role::kShape, Detail(TextColumn("problem", "Its size, as the library states it."))),
      As(Role::kChoice, Detail(TextColumn("types", "Data types; one where all are equal."))),
      As(Role::kChoice, TextColumn("chosen", "The implementation; if the library names none, the algorithm.")),
      As(Role::kChoice, Detail(TextColumn("formats", "Memory format of every tensor."))),
      As(Role::kWeight,
         IntegerColumn("wall_share", "ns", Better::kLower, "Over all steps; the rows add up to the whole.")),
      CallsColumn("Library calls, without those inside another call of the same kind."),
  };
}

Cell TextOrUnknown(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

}  // namespace

absl::StatusOr<Table> WorkTable(const TraceModel& model, const TableOptions& options) {
  const Division division(model, options);
  const Wording wording(model, *options.totals);
  std::map<Words, Sums> rows;
  for (const auto& [doing, sums] : division.sums()) {
    Sums& row = rows[wording.Of(doing, division.Group(doing))];
    row.share_ns += sums.share_ns;
    row.calls += sums.calls;
  }
  Table table = NewTable("work", "What each layer's time consists of", Columns());
  for (const auto& [words, sums] : rows) {
    if (sums.share_ns == 0 && sums.calls == 0) continue;
    const bool makes_calls = words.activity == ActivityName(ActivityKind::kCall);
    table.rows.push_back({words.layer, TextOrUnknown(words.direction), words.activity, TextOrUnknown(words.what),
                          TextOrUnknown(words.model), TextOrUnknown(words.purpose), TextOrUnknown(words.problem),
                          TextOrUnknown(words.types), TextOrUnknown(words.chosen), TextOrUnknown(words.formats),
                          sums.share_ns, makes_calls ? Cell(sums.calls) : Cell()});
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), [&](const Row& a, const Row& b) {
    const size_t weight = table.columns.size() - 2;
    return a[weight] > b[weight];
  });
  return table;
}

}  // namespace dlhook::analyzer::diff
