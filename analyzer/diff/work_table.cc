// Table `work`: see work_table.h.
#include "analyzer/diff/work_table.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/diff/step_work.h"
#include "analyzer/tables/activity_labels.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/layout_moves.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"

namespace dlhook::analyzer::inline diff {
namespace {

// The same in words, as the table has it.
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
      ScopeIndex& first = first_scope_[model.scopes.name[scope]];
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
  const StepWork division(model, options);
  const Wording wording(model, *options.totals);
  std::map<Words, DoneSums> rows;
  for (const auto& [doing, sums] : division.sums()) {
    DoneSums& row = rows[wording.Of(doing, division.Group(doing))];
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
