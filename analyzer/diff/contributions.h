// Which layers cause the change of a step, and why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/row_keys.h"

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

}  // namespace dlhook::analyzer::diff
