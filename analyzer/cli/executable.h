// The program that `dlhook run` is to start: where it is and whether a library can be preloaded into it.
#ifndef DLHOOK_ANALYZER_CLI_EXECUTABLE_H_
#define DLHOOK_ANALYZER_CLI_EXECUTABLE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline cli {

// Path of `program` as execvp would find it. NotFound, or PermissionDenied where a file of that name may not be executed.
absl::StatusOr<std::string> FindProgram(const std::string& program);

// FailedPrecondition, with the reason, where LD_PRELOAD can't work: static, set-uid or set-gid, another architecture or C
// library. Scripts: of their interpreter; NotFound where that is not there.
absl::Status CheckPreloadable(const std::string& path);

// Of a FailedPrecondition of CheckPreloadable, a stable word: "static-binary", "set-uid", "other-architecture",
// "other-libc", "broken-file".
std::string ObstacleId(const absl::Status& status);

// libdlhook.so beside this program: ../lib, ../lib/x86_64-linux-gnu, lib. NotFound lists where it was looked for.
absl::StatusOr<std::string> FindShim();

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_EXECUTABLE_H_
