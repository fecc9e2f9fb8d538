// Findings that came or went from one side of a comparison to the other.
#ifndef DLHOOK_ANALYZER_FINDINGS_FINDINGS_DIFF_H_
#define DLHOOK_ANALYZER_FINDINGS_FINDINGS_DIFF_H_

#include <vector>

#include "analyzer/findings/findings_table.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline findings {

using FindingsOfRuns = std::vector<std::vector<RuleFinding>>;  // of each run of a side

// A finding is a side's if more than half of its runs have it. Findings are matched by rule; where a rule has several in a run, by
// place too.
Table FindingsDiff(const BaseSide<FindingsOfRuns>& base, const NewSide<FindingsOfRuns>& new_side);

}  // namespace dlhook::analyzer::findings

#endif  // DLHOOK_ANALYZER_FINDINGS_FINDINGS_DIFF_H_
