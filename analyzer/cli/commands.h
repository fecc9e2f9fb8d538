// The table of commands, and what `main` does.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analyzer/cli/command.h"

namespace dlhook::analyzer::inline cli {

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

// `shell`: bash, zsh or fish.
absl::StatusOr<std::string> Completion(absl::string_view shell);

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

// The values of DLHOOK_CAPTURE: "blas, blas2, …", and which of them are off by default.
std::string FamiliesSentence();

}  // namespace dlhook::analyzer::cli
