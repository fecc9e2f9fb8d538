// Runs a program under dlhook for the doctor: recorded as by `dlhook run`, traced, and examined when its processes end.
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
  std::string folder;  // for its traces
  int seconds = 0;     // it is terminated after this time; 0: no limit
};

// The trial without its model. The program's stdout goes to stderr. The status is execve's if it fails.
absl::StatusOr<Trial> TryProgram(const TrialOptions& options, const HookedNames& names);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_TRIAL_H_
