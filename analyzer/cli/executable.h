// The program for `dlhook run`: its path, and whether a library can be preloaded into it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dlhook::analyzer::inline cli {

// The path of `program` as execvp would find it. NotFound, or PermissionDenied if a file of that name is not
// executable.
absl::StatusOr<std::string> FindProgram(const std::string& program);

// FailedPrecondition, with the reason, if LD_PRELOAD can't work: static, set-uid or set-gid, another architecture or C
// library. For scripts: of their interpreter; NotFound if that does not exist.
absl::Status CheckPreloadable(const std::string& path);

// For a FailedPrecondition of CheckPreloadable, a stable word: "static-binary", "set-uid", "other-architecture",
// "other-libc", "broken-file".
std::string ObstacleId(const absl::Status& status);

// For programs that start others where no library can be preloaded from here: a clause that says what to write instead.
std::string ContainerHint(const std::string& program);

// libdlhook.so next to this program: ../lib, ../lib/x86_64-linux-gnu, lib. NotFound lists the paths tried.
absl::StatusOr<std::string> FindShim();

}  // namespace dlhook::analyzer::cli
