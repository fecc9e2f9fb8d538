// Single-threaded: ptrace, the drain and the looks alternate.
#include "analyzer/cli/trial.h"

#include <signal.h>
#include <time.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/executable.h"
#include "analyzer/cli/launch.h"
#include "analyzer/doctor/tracer.h"
#include "analyzer/io/left_rings.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr long kNapNs = 8 * 1000 * 1000;
constexpr std::chrono::seconds kGrace(3);  // between SIGTERM and SIGKILL

using Clock = std::chrono::steady_clock;

class Trialist {
 public:
  Trialist(const TrialOptions& options, const HookedNames& names)
      : options_(options),
        names_(names),
        collector_(options.folder),
        tracer_({[this](pid_t process) { OnExec(process); },
                 [this](pid_t process, pid_t thread) { Look(process, thread); }}) {}

  absl::StatusOr<Trial> Run();

 private:
  void OnExec(pid_t process);
  bool Look(pid_t process, pid_t thread);
  void LookAtAll();
  void Wait(pid_t program);
  void End(pid_t program);
  void Nap() const;

  const TrialOptions& options_;
  const HookedNames& names_;
  Collector collector_;
  Tracer tracer_;
  Trial trial_;
  std::map<pid_t, ProcessLook> looks_;
  std::map<pid_t, std::string> refused_;  // why a process could not be looked into
  sigset_t child_signal_;
};

absl::StatusOr<Trial> Trialist::Run() {
  trial_.words = options_.words;
  sigemptyset(&child_signal_);
  sigaddset(&child_signal_, SIGCHLD);
  const LaunchOptions launch = {.stdout_to_stderr = true, .before_start = [this](pid_t program) {
                                  const absl::Status status = tracer_.Attach(program);
                                  if (!status.ok()) trial_.why_not_followed = std::string(status.message());
                                  // After the fork, so that the program does not inherit it.
                                  sigprocmask(SIG_BLOCK, &child_signal_, nullptr);
                                }};
  std::vector<std::string> variables = PreloadVariables(options_.shim, options_.folder);
  variables.push_back(absl::StrCat("DLHOOK_SAMPLE=", 1'000'000'000 / kSampleNs));
  const absl::StatusOr<pid_t> program = StartProgram(options_.program, options_.words, variables, launch);
  if (!program.ok()) return program.status();
  RemoveOrphanedRings();
  Wait(*program);
  LookAtAll();  // processes that the program left running
  tracer_.Detach();
  collector_.Finish();
  trial_.wait_status = tracer_.wait_status();
  for (auto& [process, look] : looks_) trial_.looks.push_back(std::move(look));
  for (const auto& [process, reason] : refused_) {
    if (!looks_.contains(process)) trial_.why_not_followed = reason;
  }
  return std::move(trial_);
}

void Trialist::Nap() const {
  const timespec nap = {0, kNapNs};
  sigtimedwait(&child_signal_, nullptr, &nap);
}

void Trialist::Wait(pid_t program) {
  const Clock::time_point start = Clock::now();
  while (tracer_.Step()) {
    collector_.Step();
    if (options_.seconds > 0 && Clock::now() - start > std::chrono::seconds(options_.seconds)) return End(program);
    Nap();
  }
}

// Everything that the program started, in the order of process ids: children may outlive it.
void Trialist::End(pid_t program) {
  trial_.was_ended = true;
  LookAtAll();
  kill(program, SIGTERM);
  const Clock::time_point start = Clock::now();
  bool lives = true;
  while ((lives = tracer_.Step()) && Clock::now() - start < kGrace) {
    collector_.Step();
    Nap();
  }
  for (const auto& [thread, process] : tracer_.threads()) {
    if (process > 0) kill(process, SIGKILL);
  }
  if (lives) kill(program, SIGKILL);
  while (lives && (lives = tracer_.Step())) Nap();
}

void Trialist::OnExec(pid_t process) {
  looks_.erase(process);
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/", process, "/exe"), error).string();
  const absl::Status status = CheckPreloadable(path);
  if (error || status.ok()) return;
  trial_.obstacles.push_back({path, ObstacleId(status), std::string(status.message())});
}

// A look that finds nothing (normal if a process is just ending) does not replace one that did.
bool Trialist::Look(pid_t process, pid_t thread) {
  absl::StatusOr<ProcessLook> look = LookInto(process, thread, options_.shim, names_);
  if (!look.ok() && absl::IsPermissionDenied(look.status())) refused_[process] = std::string(look.status().message());
  if (!look.ok() || look->objects.empty()) return false;
  looks_[process] = *std::move(look);
  return true;
}

// By the first of a process's threads that still has its memory.
void Trialist::LookAtAll() {
  std::set<pid_t> seen;
  for (const auto& [thread, process] : tracer_.threads()) {
    if (process > 0 && !seen.contains(process) && Look(process, thread)) seen.insert(process);
  }
}

}  // namespace

absl::StatusOr<Trial> TryProgram(const TrialOptions& options, const HookedNames& names) {
  return Trialist(options, names).Run();
}

}  // namespace dlhook::analyzer::cli
