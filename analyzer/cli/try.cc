// `dlhook try`: runs the program under variations of its environment in turns, until a test decides which are faster.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/executable.h"
#include "analyzer/cli/ignored.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/names.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/diff/diff_runs.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/losses.h"
#include "analyzer/whatif/try_table.h"
#include "analyzer/whatif/variations.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline cli {
namespace {

namespace fs = std::filesystem;

constexpr char kOwnFlag[] = "budget";  // dlhook run has another one of this name
constexpr char kStandardBudget[] = "10min";
constexpr int64_t kStandardSteps = 20;
constexpr int64_t kFewestSteps = 3;   // of which a mean is taken
constexpr size_t kMostMoved = 6;      // comparisons by diff
constexpr size_t kMostFiles = 20000;  // of the working folder
constexpr std::chrono::seconds kLeastRun(20);

struct TrySettings {
  TryOptions run;
  std::vector<Variation> given;  // --env, --arg
  bool tries_list = false;       // what findings suggest, and the list
  TryFlags flags;
};

absl::Status ReadVariations(const Args& args, TrySettings* settings) {
  const auto add = [&](absl::StatusOr<std::vector<Variation>> variations) {
    if (variations.ok()) settings->given.insert(settings->given.end(), variations->begin(), variations->end());
    return variations.status();
  };
  for (const std::string& text : args.All("env")) {
    if (absl::Status status = add(VariationsOfVariable(text)); !status.ok()) return status;
  }
  for (const std::string& text : args.All("arg")) {
    if (absl::Status status = add(VariationsOfWord(text, settings->run.words)); !status.ok()) return status;
  }
  settings->tries_list = settings->given.empty() || args.Has("list");
  return absl::OkStatus();
}

absl::StatusOr<TrySettings> ReadTrySettings(const Args& args) {
  TrySettings settings;
  settings.run.words = args.operands();
  settings.run.copies_workdir = args.Has("workdir-copy");
  const absl::StatusOr<TryFlags> flags = ReadTryFlags(args, kStandardBudget);
  if (!flags.ok()) return flags.status();
  settings.flags = *flags;
  const std::string steps = args.Last("steps").value_or(absl::StrCat(kStandardSteps));
  if (!absl::SimpleAtoi(steps, &settings.run.steps) || settings.run.steps < kFewestSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("--steps expects a number of steps, ", kFewestSteps, " or more, found '", steps, "'"));
  }
  if (absl::Status status = ReadVariations(args, &settings); !status.ok()) return status;
  return settings;
}

// Files of the working folder that the program has written since: some of their names.
std::vector<std::string> WrittenSince(fs::file_time_type start) {
  std::vector<std::string> written;
  std::error_code error;
  const fs::path here = fs::current_path(error);
  size_t seen = 0;
  for (auto file = fs::recursive_directory_iterator(here, fs::directory_options::skip_permission_denied, error);
       !error && file != fs::recursive_directory_iterator() && ++seen < kMostFiles; file.increment(error)) {
    std::error_code gone;
    if (file->is_regular_file(gone) && file->last_write_time(gone) >= start && !gone)
      written.push_back(file->path().lexically_relative(here).string());
  }
  return written;
}

struct Entry {
  Variation variation;
  Tried tried;
  TryRun last;                                // its folder is kept
  std::optional<std::vector<double>> losses;  // of its first run
};

class Tryout {
 public:
  explicit Tryout(const TrySettings& settings)
      : settings_(settings), progress_(BaseName(settings.run.words.front())), start_(TryClock::now()) {}

  int Run();

 private:
  absl::Status RunFirst();
  void ChooseVariations();
  void RunRounds();
  bool RunRound(const std::vector<size_t>& open, bool is_backwards);
  bool RunEntry(Entry* entry, const char* what);
  std::string WhyNot(const TryRun& run) const;
  std::pair<double, double> Compared(const TryRun& base, const TryRun& other, const Variation& variation) const;
  void Finish();
  void Describe(Entry* entry, Outcome outcome);
  int Print();

  TryClock::time_point End() const { return start_ + settings_.flags.budget; }

  const TrySettings& settings_;
  Progress progress_;
  const TryClock::time_point start_;
  Entry base_;
  std::vector<Entry> entries_;
  std::optional<Contest> contest_;
  std::optional<StepKind> kind_;  // of the steps; unset: of the first run it is not known yet
  bool is_by_step_ = true, is_by_own_time_ = true;
  std::chrono::duration<double> took_{};  // a run
  int first_ended_by_ = 0;
  int64_t runs_ = 0;
  bool is_out_of_time_ = false;
  LossChange own_losses_;
  std::vector<std::string> notes_;
};

// Why a run can't be compared; empty: it can.
std::string Tryout::WhyNot(const TryRun& run) const {
  if (!run.failure.empty()) return run.failure;
  if (!is_by_step_) return run.ended_itself ? "" : "it did not end in the time it was given";
  if (run.time.steps >= kFewestSteps) return "";
  return absl::StrCat("only ", run.time.steps, " steady steps in ", absl::StrFormat("%.0f s", run.took.count()));
}

absl::Status Tryout::RunFirst() {
  const fs::file_time_type before = fs::file_time_type::clock::now();
  progress_.Show("first run of");
  base_.last = RunOnce(settings_.run, {}, std::nullopt, start_ + settings_.flags.budget / 2);
  const TryRun& first = base_.last;
  is_by_step_ = first.time.steps >= kFewestSteps;
  if (is_by_step_) kind_ = first.kind;
  took_ = first.took;
  first_ended_by_ = first.ended_by;
  if (WasAsked() != Asked::kNothing) return absl::CancelledError("stopped before the first run had ended");
  if (const std::string why = WhyNot(first); !why.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the program as it is: ", why,
        first.failure.empty() ? "; dlhook try needs a program that repeats steps, or ends by itself" : ""));
  }
  base_.losses = LossesIn(first.output);
  const std::vector<std::string> written = WrittenSince(before);
  if (!written.empty() && !settings_.run.copies_workdir) {
    notes_.push_back(absl::StrCat("The program writes in its working folder (", written.front(),
                                  written.size() > 1 ? absl::StrCat(" and ", written.size() - 1, " more") : "",
                                  "), each run over the last one's files; --workdir-copy gives each a copy."));
    progress_.Clear();
    PrintError(absl::StrCat("try: ", notes_.back()));
  }
  return absl::OkStatus();
}

void Tryout::ChooseVariations() {
  std::vector<Variation> variations = settings_.given;
  absl::StatusOr<LoadedRun> run = settings_.tries_list ? LoadRun(base_.last.run) : absl::NotFoundError("");
  if (run.ok()) {
    const RunAnalysis analysis(&run->model);
    const StepFacts facts(run->model, analysis.options());
    Ground ground = GroundOf(facts);
    ground.variable = [](const std::string& name) {
      const char* const value = getenv(name.c_str());
      return std::string(value == nullptr ? "" : value);
    };
    for (Variation& listed : ListedVariations(ground, FindAll(facts), facts.step_ns())) {
      const bool is_given = std::any_of(variations.begin(), variations.end(),
                                        [&](const Variation& given) { return given.name == listed.name; });
      if (!is_given) variations.push_back(std::move(listed));
    }
  }
  for (Variation& variation : variations) {
    entries_.emplace_back();
    entries_.back().tried = {.name = variation.name,
                             .changes_numerics = variation.changes_numerics,
                             .promise = variation.promise,
                             .command = CommandLine(variation, settings_.run.words)};
    entries_.back().variation = std::move(variation);
  }
  contest_.emplace(entries_.size());
}

// What both are compared by, in the same way.
std::pair<double, double> Tryout::Compared(const TryRun& base, const TryRun& other, const Variation& variation) const {
  std::pair<double, double> times = {base.time.wall_ns, other.time.wall_ns};
  if (base.time.own_ns && other.time.own_ns) times = {*base.time.own_ns, *other.time.own_ns};
  if (variation.changes_batch && base.time.samples > 0 && other.time.samples > 0) {
    times.first /= base.time.samples;
    times.second /= other.time.samples;
  }
  return times;
}

// False: there is no time for it, or it can't be compared.
bool Tryout::RunEntry(Entry* entry, const char* what) {
  const TryClock::time_point now = TryClock::now();
  is_out_of_time_ = now + std::chrono::duration_cast<TryClock::duration>(took_) > End();
  if (is_out_of_time_ || WasAsked() != Asked::kNothing) return false;
  progress_.Show(absl::StrFormat("run %d (%s) of", runs_ + 1, what));
  const std::string old = entry->last.run;
  const auto most = std::max<TryClock::duration>(kLeastRun, std::chrono::duration_cast<TryClock::duration>(10 * took_));
  TryOptions options = settings_.run;
  options.ends_by = first_ended_by_;
  TryRun run = RunOnce(options, entry->variation, kind_, std::min(now + most, End() + kLeastRun));
  ++runs_;
  if (WasAsked() != Asked::kNothing) return false;
  std::error_code error;
  if (!old.empty()) fs::remove_all(old, error);
  entry->last = std::move(run);
  Tried& tried = entry->tried;
  tried.failure = WhyNot(entry->last);
  if (!tried.failure.empty()) return false;
  is_by_own_time_ &= entry->last.time.own_ns.has_value();
  tried.peak_bytes = std::max(tried.peak_bytes, entry->last.peak_bytes);
  const std::vector<double> losses = LossesIn(entry->last.output);
  if (!entry->losses) entry->losses = losses;
  if (entry == &base_) {
    const LossChange change = CompareLosses(*base_.losses, losses);
    if (change.first > 0 && change.most >= own_losses_.most) own_losses_ = change;
  }
  return true;
}

bool Tryout::RunRound(const std::vector<size_t>& open, bool is_backwards) {
  std::vector<Entry*> order = {&base_};
  for (size_t i : open) order.push_back(&entries_[i]);
  if (is_backwards) std::reverse(order.begin(), order.end());
  std::vector<Entry*> done;
  for (Entry* entry : order) {
    if (RunEntry(entry, entry == &base_ ? "as it is" : entry->tried.name.c_str())) {
      done.push_back(entry);
    } else if (entry == &base_ || entry->tried.failure.empty()) {
      break;
    } else {
      contest_->Fail(static_cast<size_t>(entry - entries_.data()));
    }
  }
  if (std::find(done.begin(), done.end(), &base_) == done.end()) return false;
  for (Entry* entry : done) {
    const auto [base_ns, ns] = Compared(base_.last, entry->last, entry->variation);
    entry->tried.times_ns.push_back(ns);
    if (entry != &base_) contest_->Add(static_cast<size_t>(entry - entries_.data()), base_ns, ns);
  }
  return true;
}

// What slows the machine down more and more falls out where the order turns around.
void Tryout::RunRounds() {
  bool is_backwards = false;
  for (std::vector<size_t> open; !(open = contest_->NextRound()).empty(); is_backwards = !is_backwards) {
    if (!RunRound(open, is_backwards) || is_out_of_time_ || WasAsked() != Asked::kNothing) break;
  }
}

// The first sentence of the diff.
std::string MovedBetween(const std::string& base_path, const std::string& path) {
  absl::StatusOr<LoadedRun> base = LoadRun(base_path), run = LoadRun(path);
  if (!base.ok() || !run.ok() || base->model.processes.empty() || run->model.processes.empty()) return "";
  const RunAnalysis base_analysis(&base->model), analysis(&run->model);
  const absl::StatusOr<RunsDiff> diff =
      DiffRuns(BaseSide<std::vector<AnalyzedRun>>({{&base->model, base_analysis.options()}}),
               NewSide<std::vector<AnalyzedRun>>({{&run->model, analysis.options()}}), {});
  if (!diff.ok()) return "";
  absl::string_view sentence = diff->tables.front().title;
  return absl::ConsumePrefix(&sentence, "NEW is ") ? absl::StrCat("it is ", sentence) : std::string(sentence);
}

void Tryout::Describe(Entry* entry, Outcome outcome) {
  Tried& tried = entry->tried;
  tried.outcome = outcome;
  if (base_.losses && entry->losses)
    tried.losses = LossSentence(CompareLosses(*base_.losses, *entry->losses), own_losses_);
}

void Tryout::Finish() {
  size_t moved = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Describe(&entries_[i], contest_->outcome(i));
    entries_[i].tried.speed = contest_->speed(i);
    const Outcome outcome = entries_[i].tried.outcome;
    if ((outcome != Outcome::kFaster && outcome != Outcome::kSlower) || ++moved > kMostMoved) continue;
    progress_.Show("comparing runs of");
    entries_[i].tried.moved = MovedBetween(base_.last.run, entries_[i].last.run);
  }
}

int Tryout::Print() {
  TriedProgram program = {.unit = is_by_step_ ? StepWord(*kind_) : "run", .base = base_.tried};
  program.base.name = "none";
  for (const Entry& entry : entries_) program.variations.push_back(entry.tried);
  std::vector<Table> tables = TryTables(program);
  std::vector<std::string>& notes = tables.front().notes;
  notes.push_back(absl::StrCat(
      is_by_own_time_
          ? "Times are those in which the thread with the steps ran or was blocked, without waiting for a "
            "processor that other programs had"
          : "Times are wall time, with what other programs took: the thread's states were not seen in all runs",
      is_by_step_ ? ", in a mean steady step." : ", of the whole run."));
  notes.push_back(absl::StrFormat(
      "Intervals and outcomes hold for all variations and rounds together with %.0f %% (sequential t-test of paired "
      "rounds); %d runs in %.0f s%s.",
      100 * (1 - kTryAlpha), runs_ + 1, std::chrono::duration<double>(TryClock::now() - start_).count(),
      is_out_of_time_ ? absl::StrCat(", then the budget of ", settings_.flags.budget_text, " was used up") : ""));
  if (WasAsked() == Asked::kReport) notes.emplace_back("Stopped by SIGINT before all was decided.");
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  progress_.Clear();
  return PrintTables(settings_.flags, std::move(tables));
}

int Tryout::Run() {
  const absl::Status first = RunFirst();
  if (WasAsked() == Asked::kEnd) return kExitBadInput;
  progress_.Clear();
  if (!first.ok()) return Fail("try", first);
  ChooseVariations();
  RunRounds();
  if (WasAsked() == Asked::kEnd) return kExitBadInput;
  Finish();
  return Print();
}

int RunTry(const Args& args) {
  absl::StatusOr<TrySettings> settings = ReadTrySettings(args);
  if (!settings.ok()) return Fail("try", settings.status());
  if (absl::Status status = SetVariables(args, kOwnFlag); !status.ok()) return Fail("try", status);
  const absl::StatusOr<std::string> program = FindProgram(args.operands().front());
  if (!program.ok()) return Fail("try", program.status());
  if (absl::Status status = CheckPreloadable(*program); !status.ok()) return Fail("try", status);
  const absl::StatusOr<std::string> shim = FindShim();
  if (!shim.ok()) return Fail("try", shim.status());
  std::error_code error;
  settings->run.program = fs::absolute(*program, error).string();
  settings->run.shim = *shim;
  settings->run.folder = absl::StrCat(fs::temp_directory_path(error).string(), "/dlhook-try-XXXXXX");
  if (mkdtemp(settings->run.folder.data()) == nullptr) {
    return Fail("try", absl::ErrnoToStatus(errno, absl::StrCat(settings->run.folder, ": can't be made")));
  }
  return WithKeeper(settings->run.folder, [&] { return Tryout(*settings).Run(); });
}

}  // namespace

Command TryCommand() {
  return {
      .name = "try",
      .summary = "measure whether the program is faster with other settings",
      .operands = "PROGRAM [WORD]...",
      .flags = Joined({{{"budget", "TIME", "ends after this time, decided or not (default: 10min)"},
                        {"steps", "N", "a run is stopped after so many steady steps (default: 20)"},
                        {"env", "NAME=VALUE,...", "try these values of a variable; may be repeated"},
                        {"arg", "--NAME=VALUE,...", "try these values of a flag of the program; may be repeated"},
                        {"list", "", "what findings suggest and the list, besides --env and --arg"},
                        {"workdir-copy", "", "each run in a copy of the working folder, removed behind it"},
                        {"format", "FORMAT", "text, csv or json (default: text)"},
                        ColorFlag()},
                       VariableFlags(kOwnFlag)}),
      .examples = {{"dlhook try -- python train.py", "threads, malloc, instruction sets ..., for 10 minutes"},
                   {"dlhook try --env OMP_NUM_THREADS=1,2,4 -- python train.py", "only these"},
                   {"dlhook try --arg --batch-size=32,64 -- python train.py",
                    "the time of a sample, where it is known"},
                   {"dlhook try --workdir-copy --budget 1h -- python train.py", "a program that writes checkpoints"}},
      .min_operands = 1,
      .max_operands = SIZE_MAX,
      .stops_at_operand = true,
      .details =
          [] {
            return std::string(
                "Runs the program as it is and with each variation in turns, each for some steps, and\n"
                "stops it: SIGINT, then SIGTERM, then SIGKILL to its process group. Without --env and\n"
                "--arg it tries what findings of the first run suggest, then a list of what makes sense\n"
                "on this machine. A test over paired rounds decides (docs/compare.md); what it could not\n"
                "decide in time is called so. Ctrl-C ends it with what is known. Nothing is left: no\n"
                "process, no file but those that the program writes itself.\n");
          },
      .run = RunTry};
}

}  // namespace dlhook::analyzer::cli
