// The table of commands, and what `main` does.
#ifndef DLHOOK_ANALYZER_CLI_COMMANDS_H_
#define DLHOOK_ANALYZER_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analyzer/cli/command.h"

namespace dlhook::analyzer::inline cli {

Command ReportCommand();
Command TopCommand();
Command DiffCommand();
Command ScalingCommand();
Command DumpCommand();
Command ExportCommand();
Command RunCommand();
Command CtlCommand();
Command DoctorCommand();
Command CountersCommand();
Command CalibrateCommand();

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

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_COMMANDS_H_
