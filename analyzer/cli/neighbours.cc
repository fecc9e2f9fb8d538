// fork, signals. Each neighbour is the leader of a process group; it is killed when the process that started it dies.
#include "analyzer/cli/neighbours.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>

#include "analyzer/cli/launch.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr timespec kMoment = {0, 20 * 1000 * 1000};
constexpr std::chrono::seconds kStartWithin(20);  // for loads to have their memory
constexpr std::chrono::seconds kGraceOfNeighbour(2);

// A process's, without its children's; 0: it has ended.
double ProcessorSeconds(pid_t pid) {
  clockid_t clock;
  timespec used = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

// Of all children that were waited for, and theirs.
double ProcessorSeconds() {
  rusage used = {};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

absl::StatusOr<std::vector<int>> ReadProcessors(const std::optional<std::string>& list, absl::string_view flag) {
  if (!list) return std::vector<int>();
  const std::optional<std::vector<int>> processors = ProcessorNumbers(*list);
  if (!processors) return Unexpected(flag, "numbers of processors such as 0-1,3", *list);
  const std::vector<int> allowed = AllowedProcessors();
  for (int number : *processors) {
    if (!absl::c_linear_search(allowed, number))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": this process may not use processor ", number));
  }
  return *processors;
}

Neighbours::Neighbours(const NeighbourOptions& options)
    : options_(options),
      meters_(static_cast<std::atomic<uint64_t>*>(
          mmap(nullptr, (options.commands.size() + options.loads.size()) * options.copies * sizeof *meters_,
               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  for (const std::string& command : options.commands) uses_.push_back({.name = command});
  for (const LoadKind load : options.loads)
    uses_.push_back({.name = LoadName(load), .intensity = options.intensity, .moves_bytes = MovesBytes(load)});
  for (NeighbourUse& use : uses_) use.copies = options.copies;
}

pid_t Neighbours::Start(size_t use, std::atomic<uint64_t>* done, const std::function<void(pid_t)>& join) const {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setsid();
  const sigset_t none = SignalSet({});
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
  RedirectTo(absl::StrCat(options_.folder, "/neighbour-", use));
  join(getpid());
  if (!options_.processors.empty()) RunOn(options_.processors);
  const size_t commands = options_.commands.size();
  if (use >= commands)
    RunLoad(options_.loads[use - commands], options_.intensity, options_.copies, options_.folder, done);
  execl("/bin/sh", "sh", "-c", options_.commands[use].c_str(), nullptr);
  _exit(127);
}

absl::Status Neighbours::Start(const std::function<void(pid_t)>& join) {
  processes_.clear();
  for (size_t use = 0; use < uses_.size(); ++use) {
    for (size_t copy = 0; copy < options_.copies; ++copy) {
      std::atomic<uint64_t>* const done = meters_ + processes_.size();
      *done = 0;
      processes_.push_back({use, Start(use, done, join), done});
    }
  }
  const TryClock::time_point end = TryClock::now() + kStartWithin;
  for (Process& process : processes_) {
    const bool is_load = process.use >= options_.commands.size();
    while (is_load && *process.done == 0 && WasAsked() == Asked::kNothing) {
      nanosleep(&kMoment, nullptr);
      siginfo_t ended = {};
      waitid(P_PID, static_cast<id_t>(process.pid), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid != 0 || TryClock::now() > end)
        return absl::UnavailableError(
            absl::StrCat("the neighbour ", uses_[process.use].name, " does not start to work"));
    }
  }
  for (Process& process : processes_) {
    process.done_at_start = *process.done;
    process.seconds_at_start = process.use >= options_.commands.size() ? ProcessorSeconds(process.pid) : 0;
  }
  start_ = TryClock::now();
  return absl::OkStatus();
}

// Politely, then firmly.
absl::Status Neighbours::Stop() {
  absl::Status status;
  if (processes_.empty()) return status;
  const double seconds = std::chrono::duration<double>(TryClock::now() - start_).count();
  const auto is_load = [this](const Process& process) { return process.use >= options_.commands.size(); };
  for (const Process& process : processes_) {
    if (!is_load(process)) continue;
    NeighbourUse& use = uses_[process.use];
    use.bytes += static_cast<double>(*process.done - process.done_at_start);
    use.processor_seconds += std::max(ProcessorSeconds(process.pid) - process.seconds_at_start, 0.0);
  }
  for (const Process& process : processes_) {
    NeighbourUse& use = uses_[process.use];
    const double before = ProcessorSeconds();
    int how = 0;
    const bool had_ended = waitpid(process.pid, &how, WNOHANG) == process.pid;
    use.ended += had_ended ? 1 : 0;
    if (had_ended && !FailureOf(how).empty() && status.ok()) {
      std::ifstream file(absl::StrCat(options_.folder, "/neighbour-", process.use));
      const std::string last = LastLine((std::ostringstream() << file.rdbuf()).str());
      status = absl::FailedPreconditionError(absl::StrCat("the neighbour '", use.name, "' ", FailureOf(how),
                                                          " before the program was stopped", last.empty() ? "" : ": ",
                                                          last));
    }
    kill(-process.pid, SIGTERM);
    const TryClock::time_point end = TryClock::now() + kGraceOfNeighbour;
    while (!had_ended && waitpid(process.pid, nullptr, WNOHANG) == 0) {
      if (TryClock::now() > end || WasAsked() == Asked::kEnd) kill(-process.pid, SIGKILL);
      nanosleep(&kMoment, nullptr);
    }
    kill(-process.pid, SIGKILL);  // what it has left is now this process's child
    while (waitpid(-process.pid, nullptr, 0) > 0) {
    }
    if (!is_load(process)) use.processor_seconds += ProcessorSeconds() - before;
  }
  for (NeighbourUse& use : uses_) use.seconds += seconds;
  processes_.clear();
  return status;
}

}  // namespace dlhook::analyzer::cli
