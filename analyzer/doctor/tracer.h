// Follows a program and everything it starts with ptrace, so that each process can be examined when it ends, when
// everything it ever loaded is still mapped, however it ends (except by SIGKILL from another process). Effects on the
// program: a debugger can't attach to it, and set-uid programs that it starts gain no rights (unless the user is root).
// Signals, stops and exit codes are unchanged. Single-threaded: ptrace ties the followed processes to the thread that
// attached.
#pragma once

#include <sys/types.h>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline doctor {

class Tracer {
 public:
  struct Observer {
    std::function<void(pid_t)> on_exec;  // a process has just started to run another program
    // A process is about to end. This thread of it (not always the first, which may have ended) has its memory intact.
    std::function<void(pid_t process, pid_t thread)> on_exit;
  };
  explicit Tracer(Observer observer) : observer_(std::move(observer)) {}

  // `program` must wait for this before it calls exec. PermissionDenied: the kernel forbids it; then only Step() is
  // useful, which reports when the program has ended.
  absl::Status Attach(pid_t program);
  // Handles pending events; returns at once. False: the program has ended with wait_status().
  bool Step();
  int wait_status() const { return wait_status_; }
  // Threads of the program and of everything it started that still live, with their processes (0: not known).
  const std::map<pid_t, pid_t>& threads() const { return threads_; }
  // The remaining processes continue without us.
  void Detach();

 private:
  void HandleStop(pid_t thread, int status);
  void HandleEvent(pid_t thread, int event, int signal);
  bool EndsProcess(pid_t thread, pid_t process);

  Observer observer_;
  pid_t program_ = 0;
  int wait_status_ = 0;
  bool is_attached_ = false;
  std::map<pid_t, pid_t> threads_;  // thread -> process
  std::set<pid_t> signalled_;       // processes that a signal ends: each of their threads says so
};

}  // namespace dlhook::analyzer::doctor
