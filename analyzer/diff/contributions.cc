#include "analyzer/diff/contributions.h"

#include "analyzer/diff/diff_table.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/time/thread_activity.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline diff {
namespace {

constexpr double kPartOfReason = 0.2;  // of the change to explain
constexpr size_t kMostReasons = 2;
constexpr char kSameCalls[] = "its calls changed in duration";
constexpr char kSameOps[] = "its ops changed in duration";

// What the rows of one group show together: clause -> how much of the change it explains.
class Clauses {
 public:
  Clauses(const TableChanges& work, const std::vector<const RowChange*>& rows)
      : per_(work.base->block_counts.front() == 0 ? "in the run" : "a step") {
    double moved_ns = 0, before = 0, after = 0;  // tensors into other memory formats, and by how many calls a step
    for (const RowChange* row : rows) {
      const WorkRow cells(work, *row);
      if (cells.MovesData()) {
        moved_ns += row->time.change_ns();
        before += cells.Calls(true);
        after += cells.Calls(false);
      } else if (!cells.Newest("what").empty()) {  // Python, waiting …: only the time is known
        clauses_[ClauseOf(cells, row->rows.match)] += row->time.change_ns();
      }
    }
    if (moved_ns == 0) return;
    clauses_[std::abs(before - after) <= kOtherCalls
                 ? "its layout conversions changed in duration"
                 : absl::StrFormat("its layout changes (reorders) went from %.3g to %.3g %s", before, after, per_)] +=
        moved_ns;
  }

  std::vector<std::string> Explaining(double change_ns) const {
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [text, ns] : clauses_) {
      if (ns * change_ns > 0 && std::abs(ns) >= kPartOfReason * std::abs(change_ns))
        order.emplace_back(-std::abs(ns), text);
    }
    absl::c_sort(order);
    std::vector<std::string> texts;
    for (size_t i = 0; i < std::min(order.size(), kMostReasons); ++i) texts.push_back(order[i].second);
    // A framework op takes longer if the call inside it does.
    if (texts.size() > 1) std::erase(texts, kSameOps);
    return texts;
  }

 private:
  std::string ClauseOf(const WorkRow& row, Match match) const {
    const std::string what = row.Newest("what");
    switch (match) {
      case Match::kAdded:
        return absl::StrCat(what, " is new in it");
      case Match::kRemoved:
        return absl::StrCat(what, " is gone from it");
      case Match::kResized:
        return absl::StrCat("its size changed (", SizesChanged(row.Problem(true), row.Problem(false)), ")");
      case Match::kChanged:
        return ChoiceClause(row);
      case Match::kSame:
        break;
    }
    const double before = row.Calls(true), after = row.Calls(false);
    if (std::abs(before - after) > kOtherCalls) {
      return absl::StrFormat("%s is called %.3g times %s instead of %.3g", what, after, per_, before);
    }
    return row.Is(ActivityKind::kCall) ? kSameCalls : kSameOps;
  }

  static std::string ChoiceClause(const WorkRow& row) {
    const auto clause = [&](const char* words, const char* column) {
      return absl::StrCat(words, row.Text(column, true), " to ", row.Text(column, false));
    };
    if (row.Differs("chosen")) return clause("the implementation changed from ", "chosen");
    if (row.Differs("types")) return clause("its data types changed from ", "types");
    return clause("its tensors' memory formats changed from ", "formats");
  }

  const char* const per_;
  std::map<std::string, double> clauses_;
};

using Group = std::pair<std::string, std::string>;

// The sizes of framework ops are not known: they need not do the same work.
std::string RatioClause(const std::string& clause, const TimeChange& time) {
  return absl::StrFormat("%s take %.2f times as long", clause == kSameCalls ? "the same calls" : "its ops",
                         time.new_ns / time.base_ns);
}

}  // namespace

std::string Contribution::Sentence() const {
  std::string text = layer;
  if (!direction.empty()) absl::StrAppend(&text, " ", direction);
  absl::StrAppend(&text, " ", SignedTime(time.change_ns()));
  if (!why.empty()) absl::StrAppend(&text, ", because ", absl::StrJoin(why, " and "));
  return text;
}

std::map<std::string, Match> LayersOfOneSide(const TableChanges& work, const NameMap& names) {
  std::map<std::string, std::pair<bool, bool>> sides;
  for (const RowChange& row : work.rows) {
    auto& [in_base, in_new] = sides[WorkRow(work, row).Place(names).first];
    in_base |= row.rows.base != kNoRow;
    in_new |= row.rows.new_row != kNoRow;
  }
  std::map<std::string, Match> layers;
  for (const auto& [layer, on] : sides) {
    if ((on.first && on.second) || absl::StartsWith(layer, "[")) continue;  // "[python]" is no layer
    layers[layer] = on.first ? Match::kRemoved : Match::kAdded;
  }
  return layers;
}

std::string LayerLabel(const std::string& layer) { return absl::StartsWith(layer, "\x1e") ? layer.substr(1) : layer; }

std::vector<Contribution> FindContributions(const TableChanges& work, const NameMap& names, const Pace& pace) {
  std::map<Group, std::vector<const RowChange*>> groups;
  for (const RowChange& row : work.rows) groups[WorkRow(work, row).Place(names)].push_back(&row);
  const std::map<std::string, Match> of_one_side = LayersOfOneSide(work, names);
  std::vector<Contribution> contributions;
  for (const auto& [group, rows] : groups) {
    Contribution& contribution = contributions.emplace_back();
    contribution.layer = LayerLabel(group.first);
    contribution.direction = group.second;
    for (const RowChange* row : rows) contribution.time.Add(row->time);
    Judge(pace, kPaceOfPart, groups.size(), contribution.time);
    const auto own = of_one_side.find(group.first);
    if (own != of_one_side.end()) {
      contribution.match = own->second;
      contribution.why = {own->second == Match::kAdded ? "the layer is new" : "the layer is gone"};
      continue;
    }
    contribution.why = Clauses(work, rows).Explaining(contribution.time.change_ns());
    for (std::string& clause : contribution.why) {
      if (clause == kSameCalls || clause == kSameOps) clause = RatioClause(clause, contribution.time);
    }
  }
  absl::c_stable_sort(contributions, [](const Contribution& a, const Contribution& b) {
    return std::abs(a.time.change_ns()) > std::abs(b.time.change_ns());
  });
  return contributions;
}

std::string WorkRow::Text(const char* column, bool of_base) const {
  const Table& table = of_base ? work_->base->table : work_->new_side->table;
  return CellText(table.rows[of_base ? row_->rows.base : row_->rows.new_row][*FindColumn(table, column)]);
}

bool WorkRow::Is(ActivityKind activity) const { return Newest("activity") == ActivityName(activity); }
bool WorkRow::MovesData() const { return Newest("purpose") == kMovesData; }

double WorkRow::Sum(const char* column, bool of_base) const {
  if (!IsOn(of_base)) return 0;
  const MeasuredTable& side = of_base ? *work_->base : *work_->new_side;
  return NumberOf(side.table, side.table.rows[of_base ? row_->rows.base : row_->rows.new_row], column) / side.per;
}

std::pair<std::string, std::string> WorkRow::Place(const NameMap& names) const {
  const bool is_gone = !IsOn(false);
  const Table& table = is_gone ? work_->base->table : work_->new_side->table;
  const Row& cells = table.rows[is_gone ? row_->rows.base : row_->rows.new_row];
  std::string layer = CellText(cells[ColumnOf(table, Role::kName)]);
  if (is_gone) {
    if (const auto renamed = names.find(layer); renamed != names.end()) layer = renamed->second;
  }
  return {layer, CellText(cells[*FindColumn(table, "direction")])};
}

}  // namespace dlhook::analyzer::diff
