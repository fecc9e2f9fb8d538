// Completions for shells, generated from the same data as the help.
#ifndef DLHOOK_ANALYZER_CLI_COMPLETION_H_
#define DLHOOK_ANALYZER_CLI_COMPLETION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {

// `shell`: bash, zsh or fish.
absl::StatusOr<std::string> Completion(absl::string_view shell);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_COMPLETION_H_
