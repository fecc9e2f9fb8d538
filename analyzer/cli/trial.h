// Runs a program under dlhook for the doctor: recorded as by `dlhook run`, followed, looked into when its processes
// end.
#ifndef DLHOOK_ANALYZER_CLI_TRIAL_H_
#define DLHOOK_ANALYZER_CLI_TRIAL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/doctor/program_report.h"

namespace dlhook::analyzer::inline cli {

struct TrialOptions {
  std::string program;  // path
  std::vector<std::string> words;
  std::string shim;
  std::string folder;  // where its traces go
  int seconds = 0;     // it is ended after so long; 0: when it ends by itself
};

// The trial without its model. The program's stdout goes to stderr. The status is execve's where it fails.
absl::StatusOr<Trial> TryProgram(const TrialOptions& options, const HookedNames& names);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_TRIAL_H_
