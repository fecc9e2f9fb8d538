// One run of a program for `dlhook try` and `dlhook contend`: recorded until there are enough steps, stopped, measured. And the
// process that cleans up whatever ends this one.
#pragma once

#include "analyzer/cli/tables.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/thread_states.h"
#include "analyzer/whatif/variations.h"

namespace dlhook::analyzer::inline cli {

using TryClock = std::chrono::steady_clock;

// Calls `work` in a child process, whose exit code it returns. Whichever of the two is killed, the other ends every process
// that was started below it, removes `folder` and calls `undo`. Where both are, the kernel ends the program, and `folder` stays. In the child SIGINT and SIGTERM are blocked: WasAsked tells of them.
int WithKeeper(
    const std::string& folder, absl::FunctionRef<int()> work, absl::FunctionRef<void()> undo = [] {});
// kReport: SIGINT, what is known by now is wanted. kEnd: SIGTERM, SIGHUP, or the other process is gone.
enum class Asked : uint8_t { kNothing, kReport, kEnd };
Asked WasAsked();

// --budget ("90s", "10min", "1h"), --format and --color.
struct TryFlags {
  std::string budget_text;
  TryClock::duration budget{};
  OutputFlags output;
};
absl::StatusOr<TryFlags> ReadTryFlags(const Args& args, const char* standard_budget);

struct TryOptions {
  std::string program, shim;       // paths
  std::vector<std::string> words;  // of the program
  std::string folder;              // for everything that is written
  bool copies_workdir = false;
  int64_t steps = 0;  // after so many steady ones a run is stopped
  int ends_by = 0;    // the signal that ended an earlier run: for those before it there is no long wait. 0: not known
};

// What is done beside a run. Each may be unset.
struct TryHooks {
  std::function<void(pid_t)> before_start;  // in the process that starts the program, which waits
  std::function<void()> while_running;      // again and again
  std::function<void()> when_over;          // before all that is left below this process is ended
};

// What steps of a run are compared by; of a program without steps the whole run.
struct TryTime {
  int64_t steps = 0;   // 0: of the run
  double samples = 0;  // of a step; 0: not known
  double wall_ns = 0;
  std::optional<StateSums> states;  // of a step's thread, the much longer steps included; unset: not known
  double cpu_ns = 0;                // of all threads, in the same steps
  double states_count = 1;          // of these steps

  // Without the time in which it had no processor.
  std::optional<double> own_ns() const;
};

// What is read of a recording, also before its end.
struct TryReading {
  StepKind kind = StepKind::kUnknown;
  TryTime time;
  int64_t peak_bytes = 0;
};

struct TryRun : TryReading {
  std::string run;      // its folder
  std::string output;   // what the program printed
  std::string failure;  // it failed by itself: why; or it was never recorded
  bool ended_itself = false;
  int ended_by = 0;  // the last signal that it was sent
  std::chrono::duration<double> took{};
};

std::string LastLine(const std::string& text);  // that is not empty

// `kind`: of the steps that count; unset: the main kind. `until`: when it is stopped at the latest.
TryRun RunOnce(const TryOptions& options, const Variation& variation, std::optional<StepKind> kind,
               TryClock::time_point until, const TryHooks& hooks = {});

}  // namespace dlhook::analyzer::cli
