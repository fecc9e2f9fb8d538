// The change of a step divided: every row's into parts of one cause each. causes.h says how.
#ifndef DLHOOK_ANALYZER_DIFF_DIVIDE_CHANGE_H_
#define DLHOOK_ANALYZER_DIFF_DIVIDE_CHANGE_H_

#include <string>
#include <utility>
#include <vector>

#include "analyzer/diff/causes.h"

namespace dlhook::analyzer::inline diff {

using WorkPlace = std::pair<std::string, std::string>;  // layer, direction

struct ChangePart {
  CauseKind kind = CauseKind::kOther;
  double ns = 0;
  std::string what;  // as in Cause
  WorkPlace place;   // empty: everywhere
};

// They add up to decision.whole's change.
std::vector<ChangePart> DivideChange(const CauseInput& input);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_DIVIDE_CHANGE_H_
