// The commands of `dlhook` and their command lines.
//
// To add a command:
//   1. write analyzer/cli/NAME.cc with a function `Command NameCommand()`, declared below; it has at least one
//      example;
//   2. add its line to Commands() in command.cc.
//
// Abseil's flags are not used, because they are global to the program, while each command here has its own, must name
// itself in the error for an unknown one (exit code 2, not Abseil's 1), and `run` must ignore the words of the program
// that it starts.
#pragma once

#include <cstddef>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline cli {

// Named things on the command line: their lists in help texts, and errors for unknown ones.

// The name that was probably meant: the one with the fewest typing errors, or one that begins with what was typed.
// Empty: none is close.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// InvalidArgument: "unknown table 'op'; did you mean ops? Expected one of: summary, ops"; of very many names those like it.
// `hint` says where to find more: " (see dlhook help)"; `use` the purpose of the name: " to sort by".
absl::Status UnknownName(absl::string_view what, absl::string_view name, const std::vector<std::string>& known,
                         absl::string_view hint = "", absl::string_view use = "");

template <typename Registry>
std::vector<std::string> NamesOf(const Registry& registry) {
  std::vector<std::string> names;
  for (const auto& element : registry) names.emplace_back(element.name);
  return names;
}

// The element of a registry (tables, renderers …) with this name.
template <typename T>
absl::StatusOr<const T*> FindNamed(const std::vector<T>& registry, absl::string_view what, absl::string_view name) {
  for (const T& element : registry) {
    if (element.name == name) return &element;
  }
  return UnknownName(what, name, NamesOf(registry));
}

// "auto, always or never".
std::string OneOf(std::vector<absl::string_view> words);

// "--depth expects a number of layers, found 'x'".
absl::Status Unexpected(absl::string_view flag, absl::string_view expected, absl::string_view found);

// A registry as a part of a help text, meanings behind a column of `width` characters.
template <typename Registry, typename Meaning>
std::string RegistryText(absl::string_view title, const Registry& registry, Meaning meaning, int width = 20) {
  std::string text = absl::StrCat("\n", title, ":\n");
  for (const auto& element : registry)
    absl::StrAppendFormat(&text, "  %-*s%s\n", width, element.name, element.*meaning);
  return text;
}

// Exit codes; `run` returns its program's own.
constexpr int kExitOk = 0;
constexpr int kExitThreshold = 1;  // a threshold was given and exceeded
constexpr int kExitBadInput = 2;   // bad input or usage

struct Flag {
  absl::string_view name;   // without the dashes
  absl::string_view value;  // placeholder for the value in the help, "NAME"; "on|off": one of these; empty: a switch
  absl::string_view help;
  char letter = 0;                  // one-letter form, 0: none
  bool stands_alone = false;        // like --help: needs no operand
  bool takes_several = false;       // values up to the next flag
  absl::string_view standard = {};  // the value without "=VALUE"; empty: the value is the next word
  absl::string_view alias = {};     // what other commands call it
  bool is_variable = false;         // SetVariables checks its value
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
  struct {
    size_t least = 0, most = 0;
  } operand_count = {};
  // The first operand and everything after it are operands, whatever they look like.
  bool stops_at_operand = false;
  absl::string_view details = {};    // more for --help
  std::string (*lists)() = nullptr;  // behind these, what flags may name; may be null
  // Returns the exit code. After an error, which is printed with the command's name, that is kExitBadInput.
  absl::StatusOr<int> (*run)(const Args& args) = nullptr;
};

// "--flag VALUE [VALUE]...", "--flag=VALUE", "-f VALUE", "--" ends the flags. An error names the argument and what would be
// valid.
absl::StatusOr<Args> ParseArgs(const Command& command, absl::Span<const std::string> words);

const Flag* FindFlag(const Command& command, absl::string_view word);  // "--table", "-o"; null: it has none

std::string FlagText(const Flag& flag);  // "-o, --output", "--sample[=HZ]"; a value of its own follows
std::string HelpText(const Command& command);
std::string DetailsOf(const Command& command);  // with its lists

// The value of a flag as a number from `least` to `most`. Without the flag it stays what it was.
template <typename Number>
absl::Status ReadNumber(const Args& args, absl::string_view flag, absl::string_view expected, Number least, Number most,
                        Number* value) {
  const std::optional<std::string> text = args.Last(flag);
  if (!text || (absl::SimpleAtoi(*text, value) && *value >= least && *value <= most)) return absl::OkStatus();
  return Unexpected(flag, expected, *text);
}

// The beginnings of functions that return a status or a value: an error of the call is theirs, too.
#define RETURN_IF_ERROR(...) \
  if (absl::Status failed = (__VA_ARGS__); !failed.ok()) return failed
#define ASSIGN_OR_RETURN(variable, ...) \
  ASSIGN_OR_RETURN_BY(ASSIGN_OR_RETURN_NAME(result_of_line_, __LINE__), variable, (__VA_ARGS__))
#define ASSIGN_OR_RETURN_NAME(begin, line) ASSIGN_OR_RETURN_JOINED(begin, line)
#define ASSIGN_OR_RETURN_JOINED(begin, line) begin##line
#define ASSIGN_OR_RETURN_BY(result, variable, call) \
  auto result = call;                               \
  if (!result.ok()) return result.status();         \
  variable = *std::move(result)

// Flags of a command's own and those it shares with others, in this order.
std::vector<Flag> Joined(std::initializer_list<std::vector<Flag>> parts);

// The table of commands, and what `main` does.
Command ReportCommand();
Command TopCommand();
Command DiffCommand();
Command ScalingCommand();
Command ImportCommand();
Command DumpCommand();
Command ExportCommand();
Command RunCommand();
Command CtlCommand();
Command DoctorCommand();
Command CountersCommand();
Command CalibrateCommand();
Command TryCommand();
Command ContendCommand();
Command ReplayCommand();
Command SkillCommand();

const std::vector<Command>& Commands();  // in the order of the help
const Command* FindCommand(absl::string_view name);

extern const char kOneLine[];      // what dlhook is
extern const char kDescription[];  // how it is used

struct ExitCode {
  absl::string_view code;
  absl::string_view meaning;
};
const std::vector<ExitCode>& ExitCodes();

// `words`: the command line without the program's name. Returns the exit code.
int Main(absl::Span<const std::string> words);

// dlhook.1 in roff's man macros.
std::string ManPage();

// The script for a shell: bash, zsh or fish.
absl::StatusOr<std::string> Completion(absl::string_view shell);
// What the last of these words may become, a line each: the word, and behind a tab its meaning.
std::string Candidates(absl::Span<const std::string> words);

struct Variable {
  std::string name;
  std::string values;
  std::string standard;  // the default
  std::string meaning;
  std::vector<std::string> words;  // those of the values that are written as they are
  // Of the flag of dlhook run: the name without the dashes, empty: there is none; its value; its help.
  std::string flag;
  std::string placeholder;
  std::string help;
};

// Those for users, in the order of the help.
const std::vector<Variable>& Variables();
// `but`: a flag of that name is the command's own.
std::vector<Flag> VariableFlags(absl::string_view but = "");
// Sets those of flags in this process's environment, which the program inherits. InvalidArgument: a name or value, in a
// flag or in the environment, that the shim would not understand.
absl::Status SetVariables(const Args& args, absl::string_view but = "");
// What is wrong with these words for DLHOOK_COUNTERS, and what was probably meant. Empty: they are understood.
std::string CounterComplaint(const std::string& words);

// The values of DLHOOK_CAPTURE: "blas, blas2, …", and which of them are off by default.
std::string FamiliesSentence();

}  // namespace dlhook::analyzer::cli
