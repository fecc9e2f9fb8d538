// fork, signals, a pipe.
#include "analyzer/cli/in_time.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_split.h"
#include "preload/format/clock.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int kEndingSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr uint64_t kMostComputingNs = 2'000'000'000;
constexpr uint64_t kMostWaitingNs = 6'000'000'000;
constexpr timespec kLookEvery = {0, 50 * 1000 * 1000};

// Those that MakeInTime waits for.
void Block(sigset_t* signals) {
  sigemptyset(signals);
  for (int signal : kEndingSignals) sigaddset(signals, signal);
  sigaddset(signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, signals, nullptr);
}

bool IsOverdue(pid_t child, uint64_t start_ns) {
  clockid_t clock;
  const bool has_clock = clock_getcpuclockid(child, &clock) == 0;
  return (has_clock && ClockNanoseconds(clock) > kMostComputingNs) ||
         ClockNanoseconds(CLOCK_MONOTONIC) - start_ns > kMostWaitingNs;
}

absl::Status WaitFor(pid_t child, const sigset_t& signals) {
  const uint64_t start_ns = ClockNanoseconds(CLOCK_MONOTONIC);
  absl::Status status;
  int wait_status = 0;
  while (waitpid(child, &wait_status, WNOHANG) == 0) {
    const int signal = sigtimedwait(&signals, nullptr, &kLookEvery);
    if (signal > 0 && signal != SIGCHLD) status = absl::CancelledError("was ended by a signal");
    if (IsOverdue(child, start_ns)) status = absl::DeadlineExceededError("takes longer than 2 s");
    if (!status.ok()) kill(child, SIGKILL);
  }
  return status.ok() && wait_status != 0 ? absl::InternalError("failed") : status;
}

std::vector<std::string> PiecesIn(int pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(size));
  std::vector<std::string> pieces = absl::StrSplit(text, '\0');
  pieces.pop_back();  // one that was not finished
  return pieces;
}

[[noreturn]] void MakeHere(absl::FunctionRef<void(GivePiece)> make, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    make([pipe](absl::string_view piece) {
      const std::string text(piece);
      if (write(pipe, text.c_str(), text.size() + 1) < 0) _exit(1);
    });
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

void HoldEndingSignals() {
  sigset_t signals;
  Block(&signals);
  for (int signal : kEndingSignals) ::signal(signal, SIG_DFL);  // an ignored one would not be seen
}

Made MakeInTime(absl::FunctionRef<void(GivePiece)> make) {
  sigset_t signals;
  Block(&signals);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {absl::InternalError("failed"), {}};
  const pid_t child = fork();
  if (child == 0) MakeHere(make, ends[1]);
  close(ends[1]);
  Made made = {child < 0 ? absl::InternalError("failed") : WaitFor(child, signals), {}};
  made.pieces = PiecesIn(ends[0]);
  close(ends[0]);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);  // from here on they end this process
  return made;
}

}  // namespace dlhook::analyzer::cli
