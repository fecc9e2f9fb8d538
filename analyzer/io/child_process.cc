#include "analyzer/io/child_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace dlhook::analyzer::inline io {

constexpr int kLookMs = 100;

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string ShellWord(const std::string& word) {
  constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

ChildProcess::ChildProcess(std::string name, const std::vector<std::string>& words) : name_(std::move(name)) {
  std::vector<char*> argv = Pointers(words);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    error_ = errno;
    return;
  }
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], file);
  }
  error_ = posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
}

ChildProcess::~ChildProcess() {
  if (socket_ >= 0) close(socket_);
  if (error_ != 0 || child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

bool ChildProcess::Send(absl::string_view bytes) {
  while (error_ == 0 && !bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return error_ == 0;
}

bool ChildProcess::ReadSome() {
  char piece[4096];
  ssize_t count = 0;
  while ((count = read(socket_, piece, sizeof(piece))) < 0 && errno == EINTR) {
  }
  if (count > 0) told_.append(piece, static_cast<size_t>(count));
  return count > 0;
}

absl::StatusOr<std::string> ChildProcess::ReadLine(absl::FunctionRef<bool()> goes_on) {
  for (size_t end; error_ == 0 && (end = told_.find('\n')) == std::string::npos;) {
    if (!goes_on()) return absl::CancelledError("");
    pollfd input = {.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, kLookMs) > 0 && !ReadSome()) {
      const absl::Status status = Finish();
      return status.ok() ? absl::UnavailableError(absl::StrCat(name_, ": has ended")) : status;
    }
  }
  if (error_ != 0) return Finish();
  last_line_ = told_.substr(0, told_.find('\n'));
  told_.erase(0, last_line_.size() + 1);
  return last_line_;
}

absl::Status ChildProcess::Finish() {
  if (error_ != 0) return absl::ErrnoToStatus(error_, absl::StrCat("cannot run ", name_));
  shutdown(socket_, SHUT_WR);
  while (ReadSome()) {
  }
  int status = 0;
  while (child_ > 0 && waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (WIFSIGNALED(status)) return absl::UnavailableError(absl::StrCat(name_, ": ", strsignal(WTERMSIG(status))));
  const std::vector<std::string> lines = absl::StrSplit(told_, '\n', absl::SkipEmpty());
  return absl::UnavailableError(absl::StrCat(name_, ": ", lines.empty() ? last_line_ : lines.back()));
}

}  // namespace dlhook::analyzer::io
