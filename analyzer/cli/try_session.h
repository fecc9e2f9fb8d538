// The runs of `dlhook try` and `dlhook contend` within their budget: a first one, from which all after it take their limits.
#pragma once

#include "analyzer/cli/output.h"
#include "analyzer/cli/try_run.h"

namespace dlhook::analyzer::inline cli {

// dlhook run has another flag of this name.
inline constexpr char kBudgetFlag[] = "budget";

// The flags --steps, --workdir-copy and those that become variables, the program and its words, the shim; makes the folder.
absl::StatusOr<TryOptions> PrepareTry(absl::string_view command, const Args& args);
std::vector<Flag> ProgramFlags();  // those, but for variables

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
