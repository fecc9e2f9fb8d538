// Starts the profiled program, and ends as it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline cli {

// The program for `dlhook run`: its path, and whether a library can be preloaded into it.

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

// The environment that records a program into `folder`, drained by this process. Other preloaded libraries come after
// the shim.
std::vector<std::string> PreloadVariables(const std::string& shim, const std::string& folder);

// "dlhook-train.py-20261123-130812": the run folder of a program, if none is named.
std::string DefaultRunFolder(const std::string& program);
// Creates a folder of this name, or a similar one if there is one; returns its absolute path.
std::string MakeNewFolder(const std::string& name);

sigset_t SignalSet(std::initializer_list<int> signals);
// In a child: there is nothing to read, and what it prints goes to the file `output`. False: that can't be made.
bool RedirectTo(const std::string& output);

// A new folder "dlhook-NAME-…" in the temporary folder; an error says what to do.
absl::StatusOr<std::string> MakeTemporaryFolder(absl::string_view name);

struct LaunchOptions {
  bool stdout_to_stderr = false;
  bool ends_with_launcher = false;  // is killed when this process dies
  // Called with the program's process id while it waits to be started. May be unset.
  std::function<void(pid_t)> before_start = nullptr;
};

// Starts `words` (words[0] found at `path`) with `variables` ("NAME=VALUE") added to the environment. Terminal signals
// (SIGINT, SIGQUIT) reach the program directly and are ignored by this process; SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2
// sent to this process are forwarded. The status is execve's if it fails.
absl::StatusOr<pid_t> StartProgram(const std::string& path, const std::vector<std::string>& words,
                                   const std::vector<std::string>& variables, const LaunchOptions& options = {});

// "ended with code 1", "was ended by signal 9 (Killed)"; empty: it ended with code 0.
std::string FailureOf(int wait_status);

// Ends this process in the way `wait_status` describes: with the same exit code (returned), or the same signal.
int EndAs(int wait_status);

}  // namespace dlhook::analyzer::cli
