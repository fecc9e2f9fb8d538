// The run that `dlhook report` shows if none is named.
#ifndef DLHOOK_ANALYZER_CLI_REPORT_H_
#define DLHOOK_ANALYZER_CLI_REPORT_H_

#include <string>

#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline cli {

// The most recently changed folder in `folder` that contains process traces.
absl::StatusOr<std::string> LatestRun(const std::string& folder);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_REPORT_H_
