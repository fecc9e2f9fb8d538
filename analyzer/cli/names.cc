// Distances between words.
#include "analyzer/cli/names.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr size_t kMostListed = 60;  // of more names only those that contain the word, and of these so many:
constexpr size_t kMostOfMany = 12;

// Letters to insert, remove, replace or swap with the next one.
size_t TypingErrors(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  size_t fewest =
      std::max<size_t>(name.size() / 3, 1) + 1;  // one error in a word of up to five letters, two in "reprot"
  for (const std::string& candidate : known) {
    const size_t errors = TypingErrors(name, candidate);
    if (errors < std::min(fewest, std::max(name.size(), candidate.size()))) {
      fewest = errors;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || name.size() < 2) return nearest;
  const auto longer = std::find_if(known.begin(), known.end(),
                                   [name](const std::string& candidate) { return absl::StartsWith(candidate, name); });
  return longer == known.end() ? "" : *longer;
}

absl::Status UnknownName(absl::string_view what, absl::string_view name, const std::vector<std::string>& known,
                         absl::string_view hint, absl::string_view use) {
  const std::string nearest = NearestName(name, known);
  std::vector<std::string> shown = known;
  if (known.size() > kMostListed) {
    std::erase_if(shown, [name](const std::string& one) { return !absl::StrContains(one, name); });
    shown.resize(std::min(shown.size(), kMostOfMany));
    shown.push_back(absl::StrCat(known.size() - shown.size(), shown.empty() ? " names" : " others"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown ", what, " '", name, "'", use, "; ", nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "? "),
      nearest.empty() ? "expected" : "Expected", " one of: ", absl::StrJoin(shown, ", "), hint));
}

}  // namespace dlhook::analyzer::cli
