// Which layers cause the change of a step, and why.
#pragma once

#include "analyzer/diff/changes.h"
#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline diff {

constexpr double kOtherCalls = 0.05;  // per step; fewer are calls at the edge of a block of steps

// One direction of a layer: the sum of its rows in the table `work`.
struct Contribution {
  std::string layer;
  std::string direction;  // empty: not known
  TimeChange time;
  Match match = Match::kSame;    // kAdded, kRemoved: all of its rows are
  std::vector<std::string> why;  // clauses, the most important first; empty if nothing explains the change

  // "conv2 backward-weights +480 us, because the implementation changed from A to B".
  std::string Sentence() const;
};

// Layers that only one of the programs has: kAdded, kRemoved. Keyed as in `names`; LayerLabel gives the program's own
// names.
std::map<std::string, Match> LayersOfOneSide(const TableChanges& work, const NameMap& names);
std::string LayerLabel(const std::string& layer);

// All layers and directions, largest change first, judged. `work`: made from the tables `work` (WorkTable).
std::vector<Contribution> FindContributions(const TableChanges& work, const NameMap& names, const Pace& pace);

// A row of the tables `work` of two sides, by what its cells say.
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
