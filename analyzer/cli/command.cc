// Parsing of one command's words, and its help.
#include "analyzer/cli/command.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/names.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr size_t kMostInLine = 100;
constexpr Flag kHelpFlag = {"help", "", "show this and exit"};

const Flag* FindFlag(const Command& command, absl::string_view word) {
  const auto matches = [word](const Flag& flag) {
    return word.size() == 2 ? word[1] == flag.letter
                            : word.substr(2) == flag.name || (!flag.alias.empty() && word.substr(2) == flag.alias);
  };
  for (const Flag& flag : command.flags) {
    if (matches(flag)) return &flag;
  }
  return matches(kHelpFlag) ? &kHelpFlag : nullptr;
}

absl::Status Error(const Command& command, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(command.name, ": ", text, " (see dlhook help ", command.name, ")"));
}

absl::Status UnknownFlag(const Command& command, absl::string_view word) {
  std::vector<std::string> known;
  for (const Flag& flag : command.flags) known.push_back(absl::StrCat("--", flag.name));
  known.push_back(absl::StrCat("--", kHelpFlag.name));
  return Error(command, UnknownName("flag", word, known).message());
}

absl::Status CheckOperands(const Command& command, const Args& args) {
  const std::vector<std::string>& operands = args.operands();
  const size_t own =
      command.stops_at_operand || args.has_program() ? std::min<size_t>(operands.size(), 1) : operands.size();
  if (std::find(operands.begin(), operands.begin() + own, "") != operands.begin() + own) {
    return Error(command,
                 absl::StrCat("expected ", command.operands, ", found an empty word (a variable without a value?)"));
  }
  const bool needs_operands = std::none_of(command.flags.begin(), command.flags.end(),
                                           [&](const Flag& flag) { return flag.stands_alone && args.Has(flag.name); });
  if (needs_operands && operands.size() < command.min_operands)
    return Error(command, absl::StrCat("expected ", command.operands, ", found ",
                                       operands.empty() ? "nothing"
                                                        : absl::StrCat("only '", absl::StrJoin(operands, " "), "'")));
  if (operands.size() > command.max_operands) {
    return Error(command, absl::StrCat("expected only ", command.operands, ", found '", operands[command.max_operands],
                                       "' too"));
  }
  return absl::OkStatus();
}

std::string FlagColumn(const Flag& flag) {
  const std::string letter = flag.letter == 0 ? "" : absl::StrFormat("-%c, ", flag.letter);
  if (!flag.standard.empty()) return absl::StrCat(letter, "--", flag.name, "[=", flag.value, "]");
  return absl::StrCat(letter, "--", flag.name, flag.value.empty() ? "" : " ", flag.value);
}

}  // namespace

std::vector<std::string> Args::All(absl::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::string> Args::Last(absl::string_view flag) const {
  const auto found = values_.find(flag);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

absl::StatusOr<Args> ParseArgs(const Command& command, absl::Span<const std::string> words) {
  Args args;
  size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      ++i;
      args.has_program_ = args.operands_.empty();
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (command.stops_at_operand) break;
      args.operands_.push_back(word);
      continue;
    }
    const size_t equals = absl::StartsWith(word, "--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    const Flag* flag = FindFlag(command, name);
    if (flag == nullptr) return UnknownFlag(command, name);
    std::string value;
    if (equals != std::string::npos) {
      if (flag->value.empty()) return Error(command, absl::StrCat(name, " takes no value"));
      value = word.substr(equals + 1);
    } else if (!flag->standard.empty()) {
      value = std::string(flag->standard);
    } else if (!flag->value.empty()) {
      const bool is_last = i + 1 == words.size() || (flag->takes_several && absl::StartsWith(words[i + 1], "-"));
      if (is_last) return Error(command, absl::StrCat(name, " expects a value: ", flag->value));
      value = words[++i];
    }
    if (value.empty() && !flag->value.empty()) {
      return Error(command, absl::StrCat(name, " expects a value: ", flag->value, ", found an empty one"));
    }
    std::vector<std::string>& values = args.values_[std::string(flag->name)];
    values.push_back(std::move(value));
    while (flag->takes_several && i + 1 < words.size() && !absl::StartsWith(words[i + 1], "-"))
      values.push_back(words[++i]);
  }
  args.operands_.insert(args.operands_.end(), words.begin() + i, words.end());
  if (args.Has(kHelpFlag.name)) return args;
  if (absl::Status status = CheckOperands(command, args); !status.ok()) return status;
  return args;
}

std::string HelpText(const Command& command) {
  std::string text =
      absl::StrCat(command.summary, "\n\nusage: dlhook ", command.name, command.flags.empty() ? "" : " [FLAG]...",
                   command.operands.empty() ? "" : " ", command.operands, "\n\nflags:\n");
  std::vector<Flag> flags = command.flags;
  flags.push_back(kHelpFlag);
  size_t width = 0;
  for (const Flag& flag : flags) width = std::max(width, FlagColumn(flag).size());
  for (const Flag& flag : flags) {
    std::string column = FlagColumn(flag);
    for (const std::string& line : Wrapped(flag.help, kMostInLine - width - 4)) {
      absl::StrAppend(&text, absl::StrFormat("  %-*s  %s\n", width, std::exchange(column, ""), line));
    }
  }
  absl::StrAppend(&text, "\nexamples:\n");
  for (const Example& example : command.examples) {
    absl::StrAppend(&text, "  ", example.command, "\n      ", example.meaning, "\n");
  }
  if (command.details != nullptr) absl::StrAppend(&text, "\n", command.details());
  return text;
}

std::vector<Flag> Joined(std::initializer_list<std::vector<Flag>> parts) {
  std::vector<Flag> flags;
  for (const std::vector<Flag>& part : parts) flags.insert(flags.end(), part.begin(), part.end());
  return flags;
}

}  // namespace dlhook::analyzer::cli
