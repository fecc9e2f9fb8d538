// fork, exec, signals.
#include "analyzer/cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analyzer/io/byte_source.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline cli {
namespace {

std::atomic<pid_t> g_program{0};

void PassOn(int signal) {
  const int saved_errno = errno;
  const pid_t program = g_program.load();
  if (program > 0) kill(program, signal);
  errno = saved_errno;
}

void HandleSignals() {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = PassOn;
  for (int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (int signal : {SIGINT, SIGQUIT}) sigaction(signal, &action, nullptr);
}

// The environment with `variables` replacing those of the same name.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& variables) {
  std::vector<std::string> environment = variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const std::string& variable : variables) {
      replaced = replaced || absl::StartsWith(*entry, variable.substr(0, variable.find('=') + 1));
    }
    if (!replaced) environment.emplace_back(*entry);
  }
  return environment;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::vector<std::string> PreloadVariables(const std::string& shim, const std::string& folder) {
  const char* preload = getenv("LD_PRELOAD");
  const char* drain = getenv("DLHOOK_DRAIN");
  const char* asan = getenv("ASAN_OPTIONS");
  char collector[128];
  NameCollector(static_cast<uint32_t>(getpid()), collector, sizeof collector);
  std::vector<std::string> variables = {
      // The shared runtime of AddressSanitizer terminates a program in which another library precedes it.
      absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : absl::StrCat(asan, ":"), "verify_asan_link_order=0"),
      absl::StrCat("LD_PRELOAD=", shim, preload != nullptr && *preload != '\0' ? absl::StrCat(":", preload) : ""),
      absl::StrCat("DLHOOK_OUT=", folder), absl::StrCat("DLHOOK_COLLECTOR=", collector)};
  if (drain == nullptr) variables.emplace_back("DLHOOK_DRAIN=collector");
  return variables;
}

std::string DefaultRunFolder(const std::string& program) {
  return absl::StrCat("dlhook-", BaseName(program), "-",
                      absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()));
}

std::string MakeNewFolder(const std::string& name) {
  std::string folder = std::filesystem::absolute(name);
  for (int n = 2; mkdir(folder.c_str(), 0700) != 0 && errno == EEXIST; ++n) {
    folder = std::filesystem::absolute(absl::StrCat(name, "-", n));
  }
  return folder;
}

absl::StatusOr<pid_t> StartProgram(const std::string& path, const std::vector<std::string>& words,
                                   const std::vector<std::string>& variables, const LaunchOptions& options) {
  const std::vector<std::string> environment = EnvironmentWith(variables);
  std::vector<char*> argv = Pointers(words);
  std::vector<char*> envp = Pointers(environment);
  int failure[2];
  int start[2];  // closed when the program may start
  if (pipe2(failure, O_CLOEXEC) != 0 || pipe2(start, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("can't start the program: pipe: ", strerror(errno)));
  }
  const pid_t launcher = getpid();
  const pid_t program = fork();
  if (program < 0) return absl::InternalError(absl::StrCat("can't start the program: fork: ", strerror(errno)));
  if (program == 0) {
    close(start[1]);
    if (options.ends_with_launcher) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (options.ends_with_launcher && getppid() != launcher) _exit(126);
    char byte = 0;
    while (read(start[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (options.stdout_to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    environ = envp.data();
    execvpe(path.c_str(), argv.data(), envp.data());  // with the shell's treatment of files without a magic number
    const int error = errno;
    if (write(failure[1], &error, sizeof error) < 0) _exit(126);
    _exit(126);
  }
  g_program = program;
  HandleSignals();
  close(failure[1]);
  close(start[0]);
  if (options.before_start) options.before_start(program);
  close(start[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);
  if (!failed) return program;
  waitpid(program, nullptr, 0);
  const std::string message = absl::StrCat(path, ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

std::string FailureOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)), ")");
  }
  return WEXITSTATUS(wait_status) == 0 ? "" : absl::StrCat("ended with code ", WEXITSTATUS(wait_status));
}

int EndAs(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const rlimit no_core = {0, 0};  // only the program's own core matters
  setrlimit(RLIMIT_CORE, &no_core);
  const int signal = WTERMSIG(wait_status);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  return 128 + signal;  // only reached for signals that do not end a process
}

}  // namespace dlhook::analyzer::cli
