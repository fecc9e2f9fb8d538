#include "analyzer/cli/live_processes.h"

#include <unistd.h>

#include <filesystem>

#include "analyzer/cli/launch.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/io/child_process.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/symbols/live_stack.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline cli {
namespace {

// The letter of a process or thread in its stat file; 0: it is gone.
char StateLetter(const std::string& folder) {
  const std::string stat = ReadSmallFile(absl::StrCat(folder, "/stat"));
  const size_t name_end = stat.rfind(") ");  // a name may contain anything
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

}  // namespace

LiveState StateOf(const TraceTail& trace) {
  if (trace.ended()) return *trace.ended() == ProcessEnd::kVanished ? LiveState::kKilled : LiveState::kEnded;
  static const std::string& kBootId = *new std::string(ReadSmallFile("/proc/sys/kernel/random/boot_id"));
  const TraceTail::Process& process = trace.process();
  if (process.pid == 0 || process.boot_id != absl::StripSuffix(kBootId, "\n")) return LiveState::kElsewhere;
  const bool is_it = StartTimeOf(process.pid) == process.start_time_jiffies;
  const std::string folder = absl::StrCat("/proc/", process.pid);
  const char letter = StateLetter(folder);
  struct stat tasks;  // two links of the folder itself, and one for each: the first thread may have ended before others
  const bool has_others = stat(absl::StrCat(folder, "/task").c_str(), &tasks) == 0 && tasks.st_nlink > 3;
  const bool is_over = letter == '\0' || ((letter == 'Z' || letter == 'X') && !has_others);
  return is_it && !is_over ? LiveState::kRuns : LiveState::kKilled;
}

std::string ThreadState(uint32_t pid, uint32_t tid) {
  const std::string folder = absl::StrCat("/proc/", pid, "/task/", tid);
  switch (StateLetter(folder)) {
    case 'R':
      return "runs";
    case 'T':
    case 't':
      return "is stopped by a signal or a debugger";
    case 'S':
    case 'D': {
      const std::string place = ReadSmallFile(absl::StrCat(folder, "/wchan"));
      return place.empty() || place == "0" ? "sleeps" : absl::StrCat("sleeps in ", place);
    }
    case '\0':
      return "has ended";
    default:
      return "";
  }
}

const std::vector<std::string>& SleepingStacks::Of(uint32_t pid, uint32_t tid) {
  Stack& stack = stacks_[{pid, tid}];
  std::string system_call = SystemCallOf(pid, tid);
  if (system_call != stack.system_call) {
    stack.functions = LiveStack(pid, system_call);
    stack.system_call = std::move(system_call);
  }
  return stack.functions;
}

absl::StatusOr<BackgroundRun> StartInBackground(const Args& args) {
  RETURN_IF_ERROR(SetVariables(args));
  ASSIGN_OR_RETURN(RunPlace place, MakeRunPlace(args, args.operands().front()));
  place.file.reset();  // the launcher's
  BackgroundRun started;
  started.run = place.path;
  started.output = absl::StrCat(started.run, "/output.txt");
  const int made = open(started.output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made < 0) return absl::ErrnoToStatus(errno, absl::StrCat(started.output, ": can't be written"));
  close(made);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> command = {self, "run", "-o", started.run, "--"};
  command.insert(command.end(), args.operands().begin(), args.operands().end());
  std::vector<char*> argv = Pointers(command);
  started.launcher = fork();
  if (started.launcher == 0) {
    setsid();  // it is not stopped with this terminal
    if (RedirectTo(started.output)) execv(self.c_str(), argv.data());
    _exit(127);
  }
  if (started.launcher < 0) return absl::InternalError(absl::StrCat("can't start the program: ", strerror(errno)));
  return started;
}

}  // namespace dlhook::analyzer::cli
