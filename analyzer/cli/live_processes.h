// What the system tells of the processes of a run: whether they live, and what their threads do. Reads /proc only.
#ifndef DLHOOK_ANALYZER_CLI_LIVE_PROCESSES_H_
#define DLHOOK_ANALYZER_CLI_LIVE_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/trace_tail.h"

namespace dlhook::analyzer::inline cli {

// kElsewhere: on another machine, or in a container whose processes are not seen here.
enum class LiveState : uint8_t { kRuns, kEnded, kKilled, kElsewhere };
LiveState StateOf(const TraceTail& trace);

// "runs", "sleeps in futex_wait"; empty: it is not known.
std::string ThreadState(uint32_t pid, uint32_t tid);

// A program that `dlhook run` records in the background: it goes on when this process ends.
struct BackgroundRun {
  pid_t launcher = 0;
  std::string run;     // its folder
  std::string output;  // the file with what the program prints
};
absl::StatusOr<BackgroundRun> StartInBackground(const std::vector<std::string>& words);

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_LIVE_PROCESSES_H_
