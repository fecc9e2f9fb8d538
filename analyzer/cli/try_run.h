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
// that was started below it, removes `folder` and calls `undo`. Where both are, the kernel ends the program, and `folder`
// stays. In the child SIGINT and SIGTERM are blocked: WasAsked tells of them.
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
  double others_queued_ns = 0;      // in which other threads had no processor, likewise
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

// dlhook run has another flag of this name.
inline constexpr char kBudgetFlag[] = "budget";

// The flags --steps, --workdir-copy and those that become variables, the program and its words, the shim; makes the folder.
absl::StatusOr<TryOptions> PrepareTry(absl::string_view command, const Args& args);
std::vector<Flag> ProgramFlags();  // those, but for variables

// The runs of `dlhook try` and `dlhook contend` within their budget: a first one, from which all after it take their limits.
class TrySession {
 public:
  TrySession(absl::string_view command, const TryOptions& options, const TryFlags& flags);

  // Of the program as it is. An error if it can't be compared: then there is nothing to do.
  absl::StatusOr<TryRun> First(const TryHooks& hooks = {});
  // Its `failure` says why it can't be compared. Unset: there is no time for it, or the end was asked for.
  std::optional<TryRun> Next(const Variation& variation, absl::string_view what, const TryHooks& hooks = {});

  Progress& progress() { return progress_; }
  const std::string& unit() const { return unit_; }  // "training step", "run"
  bool is_by_step() const { return is_by_step_; }
  bool is_out_of_time() const { return is_out_of_time_; }
  std::string RunsText() const;  // "28 runs in 300 s, then the budget of 5min was used up"
  std::vector<std::string> Notes() const;

 private:
  std::string WhyNot(const TryRun& run) const;
  TryClock::time_point End() const { return start_ + flags_.budget; }

  const std::string command_;
  TryOptions options_;
  const TryFlags flags_;
  Progress progress_;
  const TryClock::time_point start_ = TryClock::now();
  std::string unit_ = "run";
  std::optional<StepKind> kind_;  // of the steps; unset: of the first run it is not known yet
  bool is_by_step_ = true, is_out_of_time_ = false;
  std::chrono::duration<double> took_{};  // a run
  int64_t runs_ = 0;
  std::string writes_;  // a note
};

}  // namespace dlhook::analyzer::cli
