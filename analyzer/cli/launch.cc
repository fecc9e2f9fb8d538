// fork, exec, signals.
#include "analyzer/cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer {
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

// The environment with `variables` in place of those of the same name.
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

absl::StatusOr<pid_t> StartProgram(const std::string& path, const std::vector<std::string>& words,
                                   const std::vector<std::string>& variables) {
  const std::vector<std::string> environment = EnvironmentWith(variables);
  std::vector<char*> argv = Pointers(words);
  std::vector<char*> envp = Pointers(environment);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return absl::InternalError(absl::StrCat("pipe: ", strerror(errno)));
  const pid_t program = fork();
  if (program < 0) return absl::InternalError(absl::StrCat("fork: ", strerror(errno)));
  if (program == 0) {
    environ = envp.data();
    execvpe(path.c_str(), argv.data(), envp.data());  // with the shell's way of files without a magic number
    const int error = errno;
    if (write(failure[1], &error, sizeof error) < 0) _exit(126);
    _exit(126);
  }
  g_program = program;
  HandleSignals();
  close(failure[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);
  if (!failed) return program;
  waitpid(program, nullptr, 0);
  const std::string message = absl::StrCat(path, ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
}

int EndAs(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const rlimit no_core = {0, 0};  // the program's own core is the one that counts
  setrlimit(RLIMIT_CORE, &no_core);
  const int signal = WTERMSIG(wait_status);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  return 128 + signal;  // not reached but for signals that do not end a process
}

}  // namespace dlhook::analyzer
