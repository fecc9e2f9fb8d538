// Which layers make the change of a step, and why.
#ifndef DLHOOK_ANALYZER_DIFF_CONTRIBUTIONS_H_
#define DLHOOK_ANALYZER_DIFF_CONTRIBUTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "analyzer/diff/changes.h"
#include "analyzer/diff/row_keys.h"

namespace dlhook::analyzer::inline diff {

// A layer's one direction: its rows of the table `work` together.
struct Contribution {
  std::string layer;
  std::string direction;  // empty: not known
  TimeChange time;
  Match match = Match::kSame;    // kAdded, kRemoved: of all its rows
  std::vector<std::string> why;  // clauses, what explains most first; empty where nothing does

  // "conv2 backward-weights +480 us, because the implementation changed from A to B".
  std::string Sentence() const;
};

// Moving tensors into other memory formats, in all layers together.
struct LayoutChange {
  TimeChange time;                             // judged
  double base_calls = 0, candidate_calls = 0;  // per step

  bool HasOtherCalls() const;
};
LayoutChange FindLayoutChange(const TableChanges& work, const Pace& pace);

// Layers of the program that only one side has: kAdded, kRemoved. Names as in `names`; LayerLabel makes them those of the program.
std::map<std::string, Match> LayersOfOneSide(const TableChanges& work, const NameMap& names);
std::string LayerLabel(const std::string& layer);

// Of all layers and directions, the largest change first, judged. `work`: of the tables `work` (work_table.h).
std::vector<Contribution> FindContributions(const TableChanges& work, const NameMap& names, const Pace& pace);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_CONTRIBUTIONS_H_
