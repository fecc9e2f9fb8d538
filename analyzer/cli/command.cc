// Parsing of one command's words, and its help.
#include "analyzer/cli/command.h"

#include <exception>

#include "analyzer/cli/output.h"
#include "analyzer/model/limits.h"
#include "analyzer/render/text_columns.h"

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

constexpr size_t kMostInLine = 100;
constexpr Flag kHelpFlag = {"help", "", "show this and exit"};

absl::Status Error(const Command& command, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(text, " (see dlhook help ", command.name, ")"));
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
  const bool needs_operands =
      absl::c_none_of(command.flags, [&](const Flag& flag) { return flag.stands_alone && args.Has(flag.name); });
  if (needs_operands && operands.size() < command.operand_count.least)
    return Error(command, absl::StrCat("expected ", command.operands, ", found ",
                                       operands.empty() ? "nothing"
                                                        : absl::StrCat("only '", absl::StrJoin(operands, " "), "'")));
  if (operands.size() > command.operand_count.most) {
    return Error(command, absl::StrCat("expected ", command.operand_count.most == 0 ? "nothing" : "only ",
                                       command.operands, ", found '", operands[command.operand_count.most], "' too"));
  }
  return absl::OkStatus();
}

std::string FlagColumn(const Flag& flag) {
  const bool is_apart = flag.standard.empty() && !flag.value.empty();
  return absl::StrCat(FlagText(flag), is_apart ? " " : "", is_apart ? flag.value : "");
}

constexpr char kVariablesTopic[] = "variables";
constexpr size_t kHelpWidth = 80;

std::string Overview() {
  std::string text =
      absl::StrCat("dlhook " DLHOOK_VERSION ": ", kOneLine, "\n\nusage: dlhook COMMAND [WORD]...\n\ncommands:\n");
  for (const Command& command : Commands()) {
    absl::StrAppend(&text, absl::StrFormat("  %-10s%s\n", command.name, command.summary));
  }
  absl::StrAppend(&text, "  help      what a command does and its flags: dlhook help COMMAND\n\ngetting started:\n",
                  "  dlhook run -o RUN -- python train.py\n  dlhook report RUN\n\nexit codes:\n");
  for (const ExitCode& code : ExitCodes())
    absl::StrAppend(&text, absl::StrFormat("  %-6s%s\n", code.code, code.meaning));
  return absl::StrCat(text, "\nThe DLHOOK_* variables say what is recorded: dlhook help ", kVariablesTopic, "\n");
}

std::string VariablesText() {
  std::string text = "Environment variables of the program that is recorded:\n\n";
  const auto append = [&text](absl::string_view indent, absl::string_view sentence) {
    for (const std::string& line : Wrapped(sentence, kHelpWidth - indent.size())) {
      absl::StrAppend(&text, indent, line, "\n");
    }
  };
  for (const Variable& variable : Variables()) {
    absl::StrAppend(&text, variable.name, "\n");
    append("    ", variable.meaning);
    append("    ", absl::StrCat("values: ", variable.values, " (default: ", variable.standard, ")"));
  }
  text.push_back('\n');
  append("", FamiliesSentence());
  return text;
}

int UnknownCommand(absl::string_view name) {
  std::vector<std::string> known = NamesOf(Commands());
  known.insert(known.end(), {"help", kVariablesTopic});
  PrintError(UnknownName("command", name, known).message());
  return kExitBadInput;
}

int Help(absl::Span<const std::string> words) {
  if (words.empty()) return PrintOutput(Overview());
  const std::string& topic = words.front();
  if (topic == "--man") return PrintOutput(ManPage());
  if (topic == "--completion") {
    const absl::StatusOr<std::string> text = Completion(words.back());
    return text.ok() ? PrintOutput(*text) : Fail("help", text.status());
  }
  if (topic == "--complete") return PrintOutput(Candidates(words.subspan(1)), OutputKind::kBytes);
  if (topic == kVariablesTopic) return PrintOutput(VariablesText());
  const Command* command = FindCommand(topic);
  return command == nullptr ? UnknownCommand(topic) : PrintOutput(HelpText(*command));
}

// The last safeguard: exceeding a limit ends in a message, not in an abort.
int RunGuarded(const Command& command, const Args& args) {
  const std::string where = absl::StrCat(command.name, ": ", absl::StrJoin(args.operands(), " "), ": ");
  try {
    const absl::StatusOr<int> exit_code = command.run(args);
    return exit_code.ok() ? *exit_code : Fail(command.name, exit_code.status());
  } catch (const LimitError& error) {
    PrintError(absl::StrCat(where, error.what()));
  } catch (const std::bad_alloc&) {
    PrintError(absl::StrCat(
        where, "out of memory: reading it needs more than is available or allowed (ulimit -v, ulimit -d)"));
  } catch (const std::exception& error) {
    PrintError(absl::StrCat(where, "cannot be finished: ", error.what()));
  }
  return kExitBadInput;
}

}  // namespace

// Distances between words.
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
  const auto longer =
      absl::c_find_if(known, [name](const std::string& candidate) { return absl::StartsWith(candidate, name); });
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

std::string OneOf(std::vector<absl::string_view> words) {
  const absl::string_view last = words.back();
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), words.empty() ? "" : " or ", last);
}

absl::Status Unexpected(absl::string_view flag, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " expects ", expected, ", found '", found, "'"));
}

std::vector<std::string> Args::All(absl::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<std::string> Args::Last(absl::string_view flag) const {
  const auto found = values_.find(flag);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

const Flag* FindFlag(const Command& command, absl::string_view word) {
  if (word.size() < 2 || !absl::StartsWith(word, word.size() == 2 ? "-" : "--")) return nullptr;
  const auto matches = [word](const Flag& flag) {
    return word.size() == 2 ? word[1] == flag.letter
                            : word.substr(2) == flag.name || (!flag.alias.empty() && word.substr(2) == flag.alias);
  };
  for (const Flag& flag : command.flags) {
    if (matches(flag)) return &flag;
  }
  return matches(kHelpFlag) ? &kHelpFlag : nullptr;
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
    const std::vector<absl::string_view> known = absl::StrSplit(flag->value, '|');
    if (known.size() > 1 && !flag->is_variable && !absl::c_linear_search(known, value))
      return Unexpected(flag->name, OneOf(known), value);
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

std::string FlagText(const Flag& flag) {
  return absl::StrCat(flag.letter == 0 ? "" : absl::StrFormat("-%c, ", flag.letter), "--", flag.name,
                      flag.standard.empty() ? "" : absl::StrCat("[=", flag.value, "]"));
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
  const std::string details = DetailsOf(command);
  return details.empty() ? text : absl::StrCat(text, "\n", details);
}

std::string DetailsOf(const Command& command) {
  return absl::StrCat(command.details, command.lists == nullptr ? "" : command.lists());
}

std::vector<Flag> Joined(std::initializer_list<std::vector<Flag>> parts) {
  std::vector<Flag> flags;
  for (const std::vector<Flag>& part : parts) flags.insert(flags.end(), part.begin(), part.end());
  return flags;
}

// Finds the command, parses its words, runs it.
const char kOneLine[] = "what deep-learning programs do inside the math libraries";
const char kDescription[] =
    "dlhook run starts a program and records its calls of BLAS, oneDNN, CUDA and its libraries, and what PyTorch and "
    "TensorFlow say about their layers, into a folder: the run. dlhook report shows it as tables: what each layer "
    "costs, forward and backward, which algorithms were chosen, where tensors are copied and transposed. The program "
    "is not changed.";

const std::vector<ExitCode>& ExitCodes() {
  static const auto& kExitCodes = *new std::vector<ExitCode>{
      {"0", "success"},
      {"1", "diff --fail-above exceeded; doctor, counters, calibrate found a problem"},
      {"2", "bad input or usage; the readable part of a damaged run is still shown"},
      {"126", "run: the program cannot be executed"},
      {"127", "run: the program was not found"},
      {"else", "run: the exit code of the program"},
  };
  return kExitCodes;
}

const std::vector<Command>& Commands() {
  static const auto& kCommands = *new std::vector<Command>{
      RunCommand(),    ReportCommand(),  TopCommand(),    DiffCommand(),   ScalingCommand(),  ExportCommand(),
      ImportCommand(), DumpCommand(),    CtlCommand(),    DoctorCommand(), CountersCommand(), CalibrateCommand(),
      TryCommand(),    ContendCommand(), ReplayCommand(), SkillCommand(),
  };
  return kCommands;
}

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int Main(absl::Span<const std::string> words) {
  if (words.empty()) {
    PrintError("a command is missing", absl::StrCat("\n", Overview()));
    return kExitBadInput;
  }
  const std::string& name = words.front();
  if (name == "help" || name == "--help" || name == "-h") return Help(words.subspan(1));
  if (name == "--version") return PrintOutput("dlhook " DLHOOK_VERSION "\n");
  const Command* command = FindCommand(name);
  if (command == nullptr) return UnknownCommand(name);
  const absl::StatusOr<Args> args = ParseArgs(*command, words.subspan(1));
  if (!args.ok()) return Fail(name, args.status());
  if (args->Has("help")) return PrintOutput(HelpText(*command));
  return RunGuarded(*command, *args);
}

}  // namespace dlhook::analyzer::cli
