// Findings that the user chose to ignore.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "analyzer/findings/findings_table.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline findings {

// The rule of RULE or RULE:WHERE.
absl::string_view RuleOfIgnored(absl::string_view ignored);

// `ignored`: each entry is RULE or RULE:WHERE, where WHERE is the finding's whole location, one of its layers, or its
// line. Removes them and returns how many there were.
size_t LeaveOut(const std::vector<std::string>& ignored, std::vector<RuleFinding>* findings);
// The same for the table `findings`; a last note then says so.
void LeaveOut(const std::vector<std::string>& ignored, Table* findings);

// "2 findings are ignored (--ignore, .dlhook-ignore)."
std::string IgnoredSentence(size_t count);

}  // namespace dlhook::analyzer::findings
