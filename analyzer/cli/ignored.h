// --ignore and --ignore-file: findings to leave out.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/cli/command.h"

namespace dlhook::analyzer::inline cli {

std::vector<Flag> IgnoreFlags();

// RULE or RULE:WHERE each. Without --ignore-file also those in the user's own .dlhook-ignore in the working folder, if
// there is one.
// InvalidArgument: an unknown rule (lists the known ones), or an unreadable file.
absl::StatusOr<std::vector<std::string>> ReadIgnored(const Args& args);

}  // namespace dlhook::analyzer::cli
