// --ignore and --ignore-file: findings that are left out.
#ifndef DLHOOK_ANALYZER_CLI_IGNORED_H_
#define DLHOOK_ANALYZER_CLI_IGNORED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/cli/command.h"

namespace dlhook::analyzer::inline cli {

std::vector<Flag> IgnoreFlags();

// RULE or RULE:WHERE each. Without --ignore-file also those of .dlhook-ignore in the working folder, where there is one.
// InvalidArgument: an unknown rule, naming those there are; a file that can't be read.
absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_IGNORED_H_
