#include <stdlib.h>

#include <filesystem>

#include "analyzer/cli/launch.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStandardSteps = 20;
constexpr int64_t kFewestSteps = 3;   // of which a mean is taken
constexpr size_t kMostFiles = 20000;  // of the working folder
constexpr uint64_t kMostCopied = uint64_t{2} << 30;
constexpr std::chrono::seconds kLeastRun(20);

// Files of the working folder, but not in `own`, that the program has written since: some of their names.
std::vector<std::string> WrittenSince(fs::file_time_type start, const std::string& own) {
  std::vector<std::string> written;
  std::error_code error;
  const fs::path here = fs::current_path(error);
  size_t seen = 0;
  for (auto file = fs::recursive_directory_iterator(here, fs::directory_options::skip_permission_denied, error);
       !error && file != fs::recursive_directory_iterator() && ++seen < kMostFiles; file.increment(error)) {
    std::error_code gone;
    if (file->is_directory(gone) && fs::equivalent(file->path(), own, gone)) file.disable_recursion_pending();
    if (file->is_regular_file(gone) && file->last_write_time(gone) >= start && !gone)
      written.push_back(file->path().lexically_relative(here).string());
  }
  return written;
}

// What --workdir-copy copies for each run.
absl::Status CheckWorkdir(const std::string& to) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const uint64_t most = std::min(kMostCopied, fs::space(to, error).available / 2);
  uint64_t bytes = 0;
  for (auto file = fs::recursive_directory_iterator(here, error); !error && file != fs::end(file);
       file.increment(error)) {
    std::error_code gone;
    if (file->symlink_status(gone).type() == fs::file_type::regular) bytes += file->file_size(gone);
    if (bytes <= most) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("--workdir-copy: each run would copy more than ",
                     HumanCell(Cell(static_cast<int64_t>(most)), "bytes"), " of ", here.string(), " to ", to,
                     ": at most 2 GiB and half of what is free there; start it in a smaller folder, or set TMPDIR"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> ProgramFlags() {
  return {{"steps", "N", "a run is stopped after so many steady steps (default: 20)"},
          {"workdir-copy", "", "each run in a copy of the working folder (at most 2 GiB), removed behind it"},
          {"format", "FORMAT", "text, csv or json (default: text)"},
          ColorFlag()};
}

absl::StatusOr<TryOptions> PrepareTry(absl::string_view command, const Args& args) {
  TryOptions options = {.words = args.operands(), .copies_workdir = args.Has("workdir-copy"), .steps = kStandardSteps};
  RETURN_IF_ERROR(
      ReadNumber<int64_t>(args, "steps", "a number of steps, 3 or more", kFewestSteps, INT64_MAX, &options.steps));
  RETURN_IF_ERROR(SetVariables(args, kBudgetFlag));
  ASSIGN_OR_RETURN(const std::string program, FindProgram(options.words.front()));
  RETURN_IF_ERROR(CheckPreloadable(program));
  ASSIGN_OR_RETURN(options.shim, FindShim());
  std::error_code error;
  const std::string temporary = fs::temp_directory_path(error).string();
  if (options.copies_workdir) RETURN_IF_ERROR(CheckWorkdir(temporary));
  options.program = fs::absolute(program, error).string();
  ASSIGN_OR_RETURN(options.folder, MakeTemporaryFolder(command));
  return options;
}

TrySession::TrySession(absl::string_view command, const TryOptions& options, const TryFlags& flags)
    : command_(command), options_(options), flags_(flags), progress_(BaseName(options.words.front())) {}

// Why a run can't be compared; empty: it can.
std::string TrySession::WhyNot(const TryRun& run) const {
  if (!run.failure.empty()) return run.failure;
  if (is_by_step_ ? run.time.steps >= kFewestSteps : run.ended_itself) return "";
  return absl::StrFormat("only %d steady steps in %.0f s%s", run.time.steps, run.took.count(),
                         is_by_step_ ? "" : ", and it did not end");
}

absl::StatusOr<TryRun> TrySession::First(const TryHooks& hooks) {
  const fs::file_time_type before = fs::file_time_type::clock::now();
  progress_.Show("first run of");
  TryRun first = RunOnce(options_, {}, std::nullopt, start_ + flags_.budget / 2, hooks);
  ++runs_;
  is_by_step_ = first.time.steps >= kFewestSteps;
  if (is_by_step_) kind_ = first.kind;
  if (is_by_step_) unit_ = StepWord(*kind_);
  took_ = first.took;
  options_.ends_by = first.ended_by;
  if (WasAsked() != Asked::kNothing) return absl::CancelledError("stopped before the first run had ended");
  if (const std::string why = WhyNot(first); !why.empty()) {
    const std::string hint = absl::StrCat("; dlhook ", command_,
                                          " needs 3 of them, or a program that ends by itself, in half of its budget (",
                                          flags_.budget_text, "): give it more with --budget");
    return absl::FailedPreconditionError(
        absl::StrCat("the program as it is: ", why, first.failure.empty() ? hint : ""));
  }
  const std::vector<std::string> written = WrittenSince(before, options_.folder);
  if (!written.empty() && !options_.copies_workdir) {
    writes_ = absl::StrCat("The program writes in its working folder (", written.front(),
                           written.size() > 1 ? absl::StrCat(" and ", written.size() - 1, " more") : "",
                           "), each run over the last one's files; --workdir-copy gives each a copy.");
    progress_.Clear();
    PrintError(absl::StrCat(command_, ": ", writes_));
  }
  return first;
}

std::optional<TryRun> TrySession::Next(const Variation& variation, absl::string_view what, const TryHooks& hooks) {
  const TryClock::time_point now = TryClock::now();
  is_out_of_time_ = now + std::chrono::duration_cast<TryClock::duration>(took_) > End();
  if (is_out_of_time_ || WasAsked() != Asked::kNothing) return std::nullopt;
  progress_.Show(absl::StrFormat("run %d (%s) of", runs_, what));
  const auto most = std::max<TryClock::duration>(kLeastRun, std::chrono::duration_cast<TryClock::duration>(10 * took_));
  TryRun run = RunOnce(options_, variation, kind_, std::min(now + most, End() + kLeastRun), hooks);
  ++runs_;
  if (WasAsked() != Asked::kNothing) return std::nullopt;
  const bool was_cut = run.failure.empty() && !run.ended_itself && TryClock::now() >= End();
  run.failure = WhyNot(run);
  is_out_of_time_ = was_cut && !run.failure.empty();  // it had no time for more: no fault of its own
  if (is_out_of_time_) return std::nullopt;
  return run;
}

std::string TrySession::RunsText() const {
  return absl::StrFormat(
      "%d runs in %.0f s%s", runs_, std::chrono::duration<double>(TryClock::now() - start_).count(),
      is_out_of_time_ ? absl::StrCat(", then the budget of ", flags_.budget_text, " was used up") : "");
}

std::vector<std::string> TrySession::Notes() const {
  std::vector<std::string> notes;
  if (WasAsked() == Asked::kReport) notes.emplace_back("Stopped by SIGINT before all was decided.");
  if (!writes_.empty()) notes.push_back(writes_);
  return notes;
}

}  // namespace dlhook::analyzer::cli
