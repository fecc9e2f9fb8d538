// What the system tells of the processes of a run: whether they live, and what their threads do. Reads /proc only.
#pragma once

#include "analyzer/cli/command.h"
#include "analyzer/reader/trace_tail.h"

namespace dlhook::analyzer::inline cli {

// kElsewhere: on another machine, or in a container whose processes are not seen here.
enum class LiveState : uint8_t { kRuns, kEnded, kKilled, kElsewhere };
LiveState StateOf(const TraceTail& trace);

// "runs", "sleeps in futex_wait"; empty: it is not known.
std::string ThreadState(uint32_t pid, uint32_t tid);

// The stacks of threads that sleep. Each is read once as long as the thread stands there.
class SleepingStacks {
 public:
  // Innermost first; empty: the thread runs, or the system does not let us read it.
  const std::vector<std::string>& Of(uint32_t pid, uint32_t tid);

 private:
  struct Stack {
    std::string system_call;
    std::vector<std::string> functions;
  };
  std::map<std::pair<uint32_t, uint32_t>, Stack> stacks_;
};

// A program that `dlhook run` records in the background: it goes on when this process ends.
struct BackgroundRun {
  pid_t launcher = 0;
  std::string run;     // its folder
  std::string output;  // the file with what the program prints
};
// The operands are its words; the folder is -o, as for dlhook run.
absl::StatusOr<BackgroundRun> StartInBackground(const Args& args);

}  // namespace dlhook::analyzer::cli
