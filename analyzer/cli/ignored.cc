// --ignore and --ignore-file.
#include "analyzer/cli/ignored.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/cli/names.h"
#include "analyzer/cli/output.h"
#include "analyzer/findings/ignored.h"
#include "analyzer/findings/rules.h"
#include "analyzer/io/whole_file.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kFile[] = ".dlhook-ignore";
constexpr uint64_t kMostBytes = 1 << 20;

absl::Status CheckRule(const std::string& ignored) {
  std::vector<std::string> known;
  for (const Rule& rule : Rules()) known.emplace_back(rule.id);
  const std::string rule(RuleOfIgnored(ignored));
  if (std::find(known.begin(), known.end(), rule) != known.end()) return absl::OkStatus();
  return UnknownName("rule", rule, known);
}

// One per line; # starts a comment.
absl::Status AddLines(const std::string& path, absl::string_view text, std::vector<std::string>* ignored) {
  int line = 0;
  for (const absl::string_view written : absl::StrSplit(text, '\n')) {
    ++line;
    const std::string entry(absl::StripAsciiWhitespace(written.substr(0, written.find('#'))));
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
          {"ignore-file", "FILE", "file with one of these per line (default: .dlhook-ignore)"}};
}

absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args) {
  std::vector<std::string> ignored = args.All("ignore");
  for (const std::string& entry : ignored) {
    if (absl::Status status = CheckRule(entry); !status.ok()) return status;
  }
  const std::optional<std::string> path = args.Last("ignore-file");
  const absl::StatusOr<std::string> text =
      ReadWholeFile(path.value_or(kFile), kMostBytes, path ? FileIs::kNamed : FileIs::kFound);
  if (path && !text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--ignore-file: can't read ", text.status().message()));
  }
  if (text.ok()) {
    if (absl::Status status = AddLines(path.value_or(kFile), *text, &ignored); !status.ok()) return status;
  } else if (!absl::IsNotFound(text.status())) {
    PrintError(absl::StrCat(text.status().message(), "; its rules are not used (--ignore-file names a file)"));
  }
  return ignored;
}

}  // namespace dlhook::analyzer::cli
