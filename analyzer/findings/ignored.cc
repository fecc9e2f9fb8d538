// Findings that the user chose to ignore: see ignored.h.
#include "analyzer/findings/ignored.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline findings {
namespace {

bool IsIgnored(absl::string_view rule, absl::string_view where, absl::string_view line,
               const std::vector<std::string>& ignored) {
  return std::any_of(ignored.begin(), ignored.end(), [&](absl::string_view entry) {
    if (RuleOfIgnored(entry) != rule) return false;
    if (entry.size() == rule.size()) return true;
    const absl::string_view place = entry.substr(rule.size() + 1);
    const std::vector<absl::string_view> layers = absl::StrSplit(where, ", ");
    return !place.empty() && (place == where || place == line || absl::c_linear_search(layers, place));
  });
}

}  // namespace

absl::string_view RuleOfIgnored(absl::string_view ignored) { return ignored.substr(0, ignored.find(':')); }

size_t LeaveOut(const std::vector<std::string>& ignored, std::vector<RuleFinding>* findings) {
  return std::erase_if(*findings, [&](const RuleFinding& found) {
    return IsIgnored(found.rule, found.finding.where, found.finding.line, ignored);
  });
}

void LeaveOut(const std::vector<std::string>& ignored, Table* findings) {
  const size_t count = std::erase_if(findings->rows, [&](const Row& row) {
    return IsIgnored(TextOf(*findings, row, "rule"), TextOf(*findings, row, "where"), TextOf(*findings, row, "line"),
                     ignored);
  });
  if (count > 0) findings->notes.push_back(IgnoredSentence(count));
}

std::string IgnoredSentence(size_t count) {
  return absl::StrCat(count, count == 1 ? " finding is" : " findings are", " ignored (--ignore, .dlhook-ignore).");
}

}  // namespace dlhook::analyzer::findings
