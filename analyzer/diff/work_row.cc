// A row of the tables `work` of two sides: see work_row.h.
#include "analyzer/diff/work_row.h"

#include <cstdint>
#include <variant>

#include "analyzer/table/table_ops.h"
#include "analyzer/time/activity_labels.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline diff {

std::string WorkRow::Text(const char* column, bool of_base) const {
  const Table& table = of_base ? work_->base->table : work_->new_side->table;
  return CellText(table.rows[of_base ? row_->rows.base : row_->rows.new_row][*FindColumn(table, column)]);
}

bool WorkRow::Is(ActivityKind activity) const { return Newest("activity") == ActivityName(activity); }

bool WorkRow::MovesData() const { return Newest("purpose") == kMovesData; }

double WorkRow::Sum(const char* column, bool of_base) const {
  if (!IsOn(of_base)) return 0;
  const MeasuredTable& side = of_base ? *work_->base : *work_->new_side;
  const Cell& cell = side.table.rows[of_base ? row_->rows.base : row_->rows.new_row][*FindColumn(side.table, column)];
  const auto* sum = std::get_if<int64_t>(&cell);
  return sum == nullptr ? 0 : static_cast<double>(*sum) / side.per;
}

std::pair<std::string, std::string> WorkRow::Place(const NameMap& names) const {
  const bool is_gone = !IsOn(false);
  const Table& table = is_gone ? work_->base->table : work_->new_side->table;
  const Row& cells = table.rows[is_gone ? row_->rows.base : row_->rows.new_row];
  std::string layer = CellText(cells[ColumnOf(table, Role::kName)]);
  if (is_gone) {
    const auto renamed = names.find(layer);
    if (renamed != names.end()) layer = renamed->second;
  }
  return {layer, CellText(cells[*FindColumn(table, "direction")])};
}

}  // namespace dlhook::analyzer::diff
