// A row of the tables `work` of two sides, by what its cells say.
#pragma once

#include <string>
#include <utility>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/row_keys.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline diff {

class WorkRow {
 public:
  WorkRow(const TableChanges& work, const RowChange& row) : work_(&work), row_(&row) {}

  const RowChange& row() const { return *row_; }
  double change_ns() const { return row_->time.change_ns(); }
  bool IsOn(bool of_base) const { return (of_base ? row_->rows.base : row_->rows.new_row) != kNoRow; }

  std::string Text(const char* column, bool of_base) const;
  std::string Problem(bool of_base) const { return Text("problem", of_base); }
  std::string Newest(const char* column) const { return Text(column, !IsOn(false)); }
  bool Differs(const char* column) const { return Text(column, true) != Text(column, false); }
  bool Is(ActivityKind activity) const;
  bool MovesData() const;  // converts a tensor to another memory format

  // Sums per step; 0 on a side that has not the row.
  double Calls(bool of_base) const { return Sum("calls", of_base); }
  double Flops(bool of_base) const { return Sum("flops", of_base); }

  // Layer, as the new run names it, and direction.
  std::pair<std::string, std::string> Place(const NameMap& names) const;

 private:
  double Sum(const char* column, bool of_base) const;

  const TableChanges* work_;
  const RowChange* row_;
};

}  // namespace dlhook::analyzer::diff
