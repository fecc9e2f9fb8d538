// PTRACE_SEIZE: sends no stop signals, and group stops keep working.
#include "analyzer/doctor/tracer.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "analyzer/io/machine_files.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr long kOptions =
    PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
constexpr int kDetachTries = 200;  // 5 ms each
constexpr long kDetachNapNs = 5 * 1000 * 1000;

// 0 if the thread is gone.
pid_t ProcessOf(pid_t thread) {
  pid_t process = 0;
  return absl::SimpleAtoi(ValueIn(absl::StrCat("/proc/", thread, "/status"), "Tgid"), &process) ? process : 0;
}

void Continue(pid_t thread, int signal) {
  ptrace(PTRACE_CONT, thread, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
}

}  // namespace

absl::Status Tracer::Attach(pid_t program) {
  program_ = program;
  if (ptrace(PTRACE_SEIZE, program, nullptr, reinterpret_cast<void*>(kOptions)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("ptrace: ", strerror(errno)));
  }
  is_attached_ = true;
  threads_[program] = program;
  return absl::OkStatus();
}

bool Tracer::Step() {
  int status = 0;
  pid_t thread = 0;
  while ((thread = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
    if (WIFSTOPPED(status)) {
      HandleStop(thread, status);
      continue;
    }
    threads_.erase(thread);
    signalled_.erase(thread);
    if (thread != program_) continue;
    wait_status_ = status;
    return false;
  }
  return true;
}

void Tracer::HandleStop(pid_t thread, int status) {
  if (threads_.find(thread) == threads_.end()) threads_[thread] = ProcessOf(thread);
  const int event = status >> 16;
  const int signal = WSTOPSIG(status);
  if (event == 0) {
    Continue(thread, signal);  // delivers the signal
  } else {
    HandleEvent(thread, event, signal);
  }
}

void Tracer::HandleEvent(pid_t thread, int event, int signal) {
  const bool is_group_stop = event == PTRACE_EVENT_STOP && signal != SIGTRAP;
  if (is_group_stop) {
    ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
    return;
  }
  if (event == PTRACE_EVENT_EXEC) {
    threads_[thread] = thread;  // whichever thread called exec, it is now the only one of the process
    observer_.on_exec(thread);
  } else if (event == PTRACE_EVENT_EXIT && EndsProcess(thread, threads_[thread])) {
    observer_.on_exit(threads_[thread], thread);
  }
  Continue(thread, 0);
}

// A thread may end alone: the first one, then others, then the last one. Only the last look at a process counts, so one
// too many does no harm.
bool Tracer::EndsProcess(pid_t thread, pid_t process) {
  unsigned long code = 0;
  if (ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &code) == 0 && WIFSIGNALED(static_cast<int>(code)))
    return signalled_.insert(process).second;
  if (thread == process) return true;
  const bool has_others = absl::c_any_of(threads_, [&](const auto& other) {
    return other.second == process && other.first != thread && other.first != process;
  });
  const long call = ptrace(PTRACE_PEEKUSER, thread, offsetof(user_regs_struct, orig_rax), nullptr);
  return call == SYS_exit_group || !has_others;
}

// A thread must be stopped to detach from it.
void Tracer::Detach() {
  if (!is_attached_) return;
  for (const auto& [thread, process] : threads_) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  for (int i = 0; i < kDetachTries && !threads_.empty(); ++i) {
    int status = 0;
    const pid_t thread = waitpid(-1, &status, __WALL | WNOHANG);
    if (thread < 0) return;  // none left
    if (thread == 0) {
      const timespec nap = {0, kDetachNapNs};
      nanosleep(&nap, nullptr);
    } else if (WIFSTOPPED(status)) {
      const intptr_t signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
      ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(signal));
      threads_.erase(thread);
    } else {
      threads_.erase(thread);
    }
  }
}

}  // namespace dlhook::analyzer::doctor
