// Finds the command, parses its words, runs it.
#include "analyzer/cli/commands.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "analyzer/cli/output.h"

namespace dlhook::analyzer {
namespace {

std::string Overview() {
  std::string text = "dlhook " DLHOOK_VERSION
                     ": what deep-learning programs do inside the math libraries\n\n"
                     "usage: dlhook COMMAND [WORD]...\n\ncommands:\n";
  for (const Command& command : Commands()) {
    absl::StrAppend(&text, absl::StrFormat("  %-8s%s\n", command.name, command.summary));
  }
  absl::StrAppend(&text,
                  "  help    show what a command does and its flags: dlhook help COMMAND\n\n"
                  "exit codes: 0; 1 a threshold was asked for and passed; 2 bad input or usage;\n"
                  "run: the program's own\n");
  return text;
}

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(absl::string_view name) {
  const std::string known = absl::StrJoin(
      Commands(), ", ",
      [](std::string* out, const Command& command) { absl::StrAppend(out, command.name); });
  PrintError(absl::StrCat("unknown command '", name, "'; commands are ", known, ", help"));
  return kExitBadInput;
}

int Help(absl::Span<const std::string> words) {
  if (words.empty()) return PrintOutput(Overview());
  const Command* command = FindCommand(words.front());
  return command == nullptr ? UnknownCommand(words.front()) : PrintOutput(HelpText(*command));
}

}  // namespace

const std::vector<Command>& Commands() {
  static const auto& kCommands = *new std::vector<Command>{
      RunCommand(),
      ReportCommand(),
      DumpCommand(),
      CtlCommand(),
  };
  return kCommands;
}

int Main(absl::Span<const std::string> words) {
  if (words.empty()) {
    PrintError(absl::StrCat("a command is missing\n\n", Overview()));
    return kExitBadInput;
  }
  const std::string& name = words.front();
  if (name == "help" || name == "--help" || name == "-h") return Help(words.subspan(1));
  if (name == "--version") return PrintOutput("dlhook " DLHOOK_VERSION "\n");
  const Command* command = FindCommand(name);
  if (command == nullptr) return UnknownCommand(name);
  const absl::StatusOr<Args> args = ParseArgs(*command, words.subspan(1));
  if (!args.ok()) {
    PrintError(args.status().message());
    return kExitBadInput;
  }
  if (args->Has("help")) return PrintOutput(HelpText(*command));
  return command->run(*args);
}

}  // namespace dlhook::analyzer
