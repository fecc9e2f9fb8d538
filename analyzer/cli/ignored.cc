// --ignore and --ignore-file.
#include "analyzer/cli/ignored.h"

#include <algorithm>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "analyzer/cli/names.h"
#include "analyzer/findings/ignored.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kFile[] = ".dlhook-ignore";

absl::Status CheckRule(const std::string& ignored) {
  std::vector<std::string> known;
  for (const Rule& rule : Rules()) known.emplace_back(rule.id);
  const std::string rule(RuleOfIgnored(ignored));
  if (std::find(known.begin(), known.end(), rule) != known.end()) return absl::OkStatus();
  return UnknownName("rule", rule, known);
}

// One per line; # starts a comment.
absl::Status ReadFile(const std::string& path, std::vector<std::string>* ignored) {
  std::ifstream file(path);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("--ignore-file: can't read ", path));
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    const std::string entry(absl::StripAsciiWhitespace(text.substr(0, text.find('#'))));
    if (entry.empty()) continue;
    if (const absl::Status status = CheckRule(entry); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", status.message()));
    }
    ignored->push_back(entry);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> IgnoreFlags() {
  return {{"ignore", "RULE[:WHERE]", "leave out findings (of a layer, a line); repeatable"},
          {"ignore-file", "FILE", "the same, one a line (default: .dlhook-ignore)"}};
}

absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args) {
  std::vector<std::string> ignored = args.All("ignore");
  for (const std::string& entry : ignored) {
    if (absl::Status status = CheckRule(entry); !status.ok()) return status;
  }
  const std::optional<std::string> path = args.Last("ignore-file");
  if (!path && !std::ifstream(kFile)) return ignored;
  if (absl::Status status = ReadFile(path.value_or(kFile), &ignored); !status.ok()) return status;
  return ignored;
}

}  // namespace dlhook::analyzer::cli
