// See losses.h.
#include "analyzer/whatif/losses.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr absl::string_view kNumber = "0123456789.eE+-";

// "nan" and "inf" are losses, too.
bool ReadNumber(absl::string_view text, double* number) {
  for (absl::string_view word : {"nan", "inf", "-inf"}) {
    if (text.substr(0, word.size()) == word) return absl::SimpleAtod(word, number);
  }
  absl::string_view digits = text.substr(0, std::min(text.find_first_not_of(kNumber), text.size()));
  while (!digits.empty() && !absl::ascii_isdigit(digits.back())) digits.remove_suffix(1);  // the end of a sentence
  return absl::SimpleAtod(digits, number);
}

bool Differ(double a, double b) { return a != b && !(std::isnan(a) && std::isnan(b)); }

}  // namespace

std::vector<double> LossesIn(absl::string_view output) {
  std::vector<double> losses;
  for (absl::string_view line : absl::StrSplit(output, absl::ByAnyChar("\n\r"))) {
    if (absl::StartsWith(line, "Traceback (")) break;  // it was stopped: lines of its code may have the word, too
    const std::string lower = absl::AsciiStrToLower(line);
    const size_t word = lower.find("loss");
    if (word == std::string::npos) continue;
    absl::string_view rest = absl::string_view(lower).substr(word + 4);
    for (; !rest.empty(); rest.remove_prefix(1)) {
      double loss = 0;
      const bool begins = absl::ascii_isdigit(rest.front()) || absl::StrContains("-.ni", rest.substr(0, 1));
      if (!begins || !ReadNumber(rest, &loss)) continue;
      losses.push_back(loss);
      break;
    }
  }
  return losses;
}

LossChange CompareLosses(const std::vector<double>& base, const std::vector<double>& other) {
  LossChange change = {.lines = std::min(base.size(), other.size())};
  for (size_t i = 0; i < change.lines; ++i) {
    if (!Differ(base[i], other[i])) continue;
    if (change.first == 0) change = {change.lines, 0, i + 1, base[i], other[i]};
    const double largest = std::max(std::abs(base[i]), std::abs(other[i]));
    const double difference = std::abs(base[i] - other[i]) / largest;
    change.most = std::isfinite(difference) ? std::max(change.most, difference) : INFINITY;
  }
  return change;
}

std::string LossSentence(const LossChange& change, const LossChange& own) {
  if (change.lines == 0) return "";
  const std::string lines = absl::StrCat(change.lines, change.lines == 1 ? " line" : " lines");
  if (change.first == 0) return absl::StrCat("printed losses are equal in ", lines);
  const std::string much =
      std::isinf(change.most) ? "without bound" : absl::StrFormat("by up to %.2g %%", 100 * change.most);
  std::string text = absl::StrFormat("printed losses differ %s in %s (line %d: %g, was %g)", much, lines, change.first,
                                     change.other, change.base);
  if (own.first > 0)
    absl::StrAppendFormat(&text, "; without it they differ by up to %.2g %% from run to run", 100 * own.most);
  return text;
}

}  // namespace dlhook::analyzer::whatif
