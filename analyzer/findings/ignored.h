// Findings that the user doesn't want to hear of.
#ifndef DLHOOK_ANALYZER_FINDINGS_IGNORED_H_
#define DLHOOK_ANALYZER_FINDINGS_IGNORED_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline findings {

// The rule of RULE or RULE:WHERE.
absl::string_view RuleOfIgnored(absl::string_view ignored);

// `ignored`: RULE or RULE:WHERE each, where WHERE is all of the finding's place, one of its layers, or its line.
// Takes them away and returns how many they were.
size_t LeaveOut(const std::vector<std::string>& ignored, std::vector<RuleFinding>* findings);
// The same of the table `findings`, whose last note then says it.
void LeaveOut(const std::vector<std::string>& ignored, Table* findings);

// "2 findings are ignored (--ignore, .dlhook-ignore)."
std::string IgnoredSentence(size_t count);

}  // namespace dlhook::analyzer::findings

#endif  // DLHOOK_ANALYZER_FINDINGS_IGNORED_H_
