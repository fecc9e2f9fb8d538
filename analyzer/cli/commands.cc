// Finds the command, parses its words, runs it.
#include "analyzer/cli/commands.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/cli/names.h"
#include "analyzer/cli/output.h"
#include "analyzer/model/limits.h"
#include "analyzer/render/text_columns.h"

namespace dlhook::analyzer::inline cli {

const char kOneLine[] = "what deep-learning programs do inside the math libraries";
const char kDescription[] =
    "dlhook run starts a program and records its calls of BLAS, oneDNN, CUDA and its libraries, and what PyTorch and "
    "TensorFlow say about their layers, into a folder: the run. dlhook report shows it as tables: what each layer "
    "costs, forward and backward, which algorithms were chosen, where tensors are copied and transposed. The program "
    "is not changed.";

namespace {

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

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(absl::string_view name) {
  std::vector<std::string> known = NamesOf(Commands());
  known.emplace_back("help");
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
  if (topic == kVariablesTopic) return PrintOutput(VariablesText());
  const Command* command = FindCommand(topic);
  return command == nullptr ? UnknownCommand(topic) : PrintOutput(HelpText(*command));
}

// The last safeguard: exceeding a limit ends in a message, not in an abort.
int RunGuarded(const Command& command, const Args& args) {
  const std::string where = absl::StrCat(command.name, ": ", absl::StrJoin(args.operands(), " "), ": ");
  try {
    return command.run(args);
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
  if (!args.ok()) {
    PrintError(args.status().message());
    return kExitBadInput;
  }
  if (args->Has("help")) return PrintOutput(HelpText(*command));
  return RunGuarded(*command, *args);
}

}  // namespace dlhook::analyzer::cli
