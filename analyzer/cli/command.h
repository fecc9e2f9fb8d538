// The commands of `dlhook` and their command lines.
//
// To add a command:
//   1. write analyzer/cli/NAME.cc with a function `Command NameCommand()`, declared in commands.h; it has at least one
//      example;
//   2. add its line to Commands() in commands.cc.
//
// Abseil's flags are not used, because they are global to the program, while each command here has its own, must name
// itself in the error for an unknown one (exit code 2, not Abseil's 1), and `run` must ignore the words of the program
// that it starts.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dlhook::analyzer::inline cli {

// Exit codes; `run` returns its program's own.
constexpr int kExitOk = 0;
constexpr int kExitThreshold = 1;  // a threshold was given and exceeded
constexpr int kExitBadInput = 2;   // bad input or usage

struct Flag {
  absl::string_view name;   // without the dashes
  absl::string_view value;  // placeholder for the value in the help, "NAME"; empty: a switch
  absl::string_view help;
  char letter = 0;                  // one-letter form, 0: none
  bool stands_alone = false;        // like --help: needs no operand
  bool takes_several = false;       // values up to the next flag
  absl::string_view standard = {};  // the value without "=VALUE"; empty: the value is the next word
  absl::string_view alias = {};     // what other commands call it

  bool TakesWord() const { return !value.empty() && standard.empty(); }
};

// An example for the help and the man page.
struct Example {
  absl::string_view command;  // "dlhook report RUN --table layers"
  absl::string_view meaning;  // one line
};

// The parsed words of a command.
class Args {
 public:
  bool Has(absl::string_view flag) const { return values_.contains(flag); }
  // All values in the order given; empty if the flag was not given.
  std::vector<std::string> All(absl::string_view flag) const;
  std::optional<std::string> Last(absl::string_view flag) const;
  const std::vector<std::string>& operands() const { return operands_; }
  // Whether the operands are the words of a program, after "--".
  bool has_program() const { return has_program_; }

 private:
  friend absl::StatusOr<Args> ParseArgs(const struct Command& command, absl::Span<const std::string> words);

  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> operands_;
  bool has_program_ = false;
};

struct Command {
  absl::string_view name;
  absl::string_view summary;        // one line
  absl::string_view operands = {};  // for the usage line: "RUN"
  std::vector<Flag> flags = {};     // --help is added to each
  std::vector<Example> examples = {};
  size_t min_operands = 0;
  size_t max_operands = 0;
  // The first operand and everything after it are operands, whatever they look like.
  bool stops_at_operand = false;
  std::string (*details)() = nullptr;      // more for --help; may be null
  int (*run)(const Args& args) = nullptr;  // returns the exit code
};

// "--flag VALUE [VALUE]...", "--flag=VALUE", "-f VALUE", "--" ends the flags. An error names the command,
// the argument and what would be valid.
absl::StatusOr<Args> ParseArgs(const Command& command, absl::Span<const std::string> words);

std::string HelpText(const Command& command);

// Flags of a command's own and those it shares with others, in this order.
std::vector<Flag> Joined(std::initializer_list<std::vector<Flag>> parts);

}  // namespace dlhook::analyzer::cli
