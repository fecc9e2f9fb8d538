// `dlhook try`: runs the program under variations of its environment in turns, until a test decides which are faster.
#include <stdlib.h>

#include <filesystem>

#include "analyzer/calibrate/this_machine.h"
#include "analyzer/cli/neighbours.h"
#include "analyzer/whatif/try_table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kStandardBudget[] = "10min";
constexpr size_t kMostMoved = 6;  // comparisons by diff
constexpr double kMuchQueued = 0.1;

struct TrySettings {
  TryOptions run;
  std::vector<Variation> given;  // --env, --arg
  bool tries_list = false;       // what findings suggest, and the list
  TryFlags flags;
};

absl::StatusOr<TrySettings> ReadTrySettings(const Args& args) {
  TrySettings settings;
  std::vector<Variation>& given = settings.given;
  ASSIGN_OR_RETURN(settings.flags, ReadTryFlags(args, kStandardBudget));
  for (const std::string& text : args.All("env")) {
    ASSIGN_OR_RETURN(const auto variations, VariationsOfVariable(text));
    given.insert(given.end(), variations.begin(), variations.end());
  }
  for (const std::string& text : args.All("arg")) {
    ASSIGN_OR_RETURN(const auto variations, VariationsOfWord(text, args.operands()));
    given.insert(given.end(), variations.begin(), variations.end());
  }
  for (const std::string& list : args.All("pin")) {
    ASSIGN_OR_RETURN(const std::vector<int> processors, ReadProcessors(list, "pin"));
    given.push_back({.name = absl::StrCat("taskset -c ", list), .processors = processors});
  }
  settings.tries_list = given.empty() || args.Has("list");
  ASSIGN_OR_RETURN(settings.run, PrepareTry("try", args));
  return settings;
}

struct Entry {
  Tried tried;
  TryRun last;                                // its folder is kept
  std::optional<std::vector<double>> losses;  // of its first run
};

class Tryout {
 public:
  explicit Tryout(const TrySettings& settings) : settings_(settings), session_("try", settings.run, settings.flags) {}

  int Run() {
    absl::StatusOr<TryRun> first = session_.First();
    if (WasAsked() == Asked::kEnd) return kExitBadInput;
    session_.progress().Clear();
    if (!first.ok()) return Fail("try", first.status());
    base_.last = *std::move(first);
    base_.losses = LossesIn(base_.last.output);
    ChooseVariations();
    RunRounds();
    if (WasAsked() == Asked::kEnd) return kExitBadInput;
    Finish();
    return Print();
  }

 private:
  void ChooseVariations() {
    std::vector<Variation> variations = settings_.given;
    absl::StatusOr<LoadedRun> run = settings_.tries_list ? LoadRun(base_.last.run) : absl::NotFoundError("");
    if (run.ok()) {
      const RunAnalysis analysis(&run->model);
      const StepFacts facts(run->model, analysis.options());
      Ground ground = GroundOf(facts);
      ground.pinnings = Pinnings(AllowedProcessors());
      ground.variable = [](const std::string& name) {
        const char* const value = getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      };
      for (Variation& listed : ListedVariations(ground, FindAll(facts), facts.step_ns())) {
        const bool is_given =
            absl::c_any_of(variations, [&](const Variation& given) { return given.name == listed.name; });
        if (!is_given) variations.push_back(std::move(listed));
      }
    }
    for (const Variation& variation : variations) {
      entries_.push_back({.tried = {.variation = variation, .command = CommandLine(variation, settings_.run.words)}});
    }
    contest_.emplace(entries_.size());
  }

  // What slows the machine down more and more falls out where the order turns around.
  void RunRounds() {
    bool is_backwards = false;
    for (std::vector<size_t> open; !(open = contest_->NextRound()).empty(); is_backwards = !is_backwards) {
      if (!RunRound(open, is_backwards) || session_.is_out_of_time() || WasAsked() != Asked::kNothing) break;
    }
  }

  bool RunRound(const std::vector<size_t>& open, bool is_backwards) {
    std::vector<Entry*> order = {&base_};
    for (size_t i : open) order.push_back(&entries_[i]);
    if (is_backwards) absl::c_reverse(order);
    std::vector<Entry*> done;
    for (Entry* entry : order) {
      if (RunEntry(entry)) {
        done.push_back(entry);
      } else if (entry == &base_ || entry->tried.failure.empty()) {
        break;
      } else {
        contest_->Fail(static_cast<size_t>(entry - entries_.data()));
      }
    }
    if (!absl::c_linear_search(done, &base_)) return false;
    for (Entry* entry : done) {
      const auto [base_ns, ns] = Compared(base_.last, entry->last, entry->tried.variation);
      entry->tried.times_ns.push_back(ns);
      if (entry != &base_) contest_->Add(static_cast<size_t>(entry - entries_.data()), base_ns, ns);
    }
    return true;
  }

  // False: there is no time for it, or it can't be compared.
  bool RunEntry(Entry* entry) {
    Tried& tried = entry->tried;
    const std::string old = entry->last.run;
    std::optional<TryRun> run = session_.Next(tried.variation, entry == &base_ ? "as it is" : tried.variation.name);
    if (!run) return false;
    std::error_code error;
    if (!old.empty()) std::filesystem::remove_all(old, error);
    entry->last = *std::move(run);
    tried.failure = entry->last.failure;
    if (!tried.failure.empty()) return false;
    is_by_own_time_ &= entry->last.time.states.has_value();
    queued_ = std::max(queued_, entry->last.time.others_queued_ns / entry->last.time.wall_ns);
    tried.peak_bytes = std::max(tried.peak_bytes, entry->last.peak_bytes);
    const std::vector<double> losses = LossesIn(entry->last.output);
    if (!entry->losses) entry->losses = losses;
    if (entry == &base_) {
      const LossChange change = CompareLosses(*base_.losses, losses);
      if (change.first > 0 && change.most >= own_losses_.most) own_losses_ = change;
    }
    return true;
  }

  // What both are compared by, in the same way.
  std::pair<double, double> Compared(const TryRun& base, const TryRun& other, const Variation& variation) const {
    std::pair<double, double> times = {base.time.wall_ns, other.time.wall_ns};
    if (base.time.states && other.time.states) times = {*base.time.own_ns(), *other.time.own_ns()};
    if (variation.changes_batch && base.time.samples > 0 && other.time.samples > 0) {
      times.first /= base.time.samples;
      times.second /= other.time.samples;
    }
    return times;
  }

  void Finish() {
    size_t moved = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      Tried& tried = entries_[i].tried;
      tried.outcome = contest_->outcome(i);
      tried.speed = contest_->speed(i);
      if (base_.losses && entries_[i].losses)
        tried.losses = LossSentence(CompareLosses(*base_.losses, *entries_[i].losses), own_losses_);
      const bool is_decided = tried.outcome == Outcome::kFaster || tried.outcome == Outcome::kSlower;
      if (!is_decided || ++moved > kMostMoved) continue;
      session_.progress().Show("comparing runs of");
      const absl::StatusOr<RunsDiff> diff = DiffFolders({base_.last.run}, {entries_[i].last.run});
      if (!diff.ok()) continue;
      absl::string_view sentence = diff->tables.front().title;
      tried.moved = absl::StrCat(absl::ConsumePrefix(&sentence, "NEW is ") ? "it is " : "", sentence);
    }
  }

  int Print() {
    TriedProgram program = {.unit = session_.unit(), .base = base_.tried};
    for (const Entry& entry : entries_) program.variations.push_back(entry.tried);
    std::vector<Table> tables = TryTables(program);
    std::vector<std::string>& notes = tables.front().notes;
    notes.push_back(absl::StrCat(
        is_by_own_time_
            ? "Times are those in which the thread with the steps ran or was blocked, without waiting for a processor "
              "that other programs had"
            : "Times are wall time, with what other programs took: the thread's states were not seen in all runs",
        session_.is_by_step() ? ", in a mean steady step." : ", of the whole run."));
    if (queued_ > kMuchQueued)
      notes.push_back(absl::StrFormat(
          "Other threads of the program waited for a processor for up to %.2g times as long as a step lasted: what is "
          "told of its threads holds for a machine that is as busy.",
          queued_));
    notes.push_back(
        absl::StrFormat("Intervals and outcomes hold for all variations and rounds together with %.0f %% (sequential "
                        "t-test of paired rounds); %s.",
                        100 * (1 - kContestAlpha), session_.RunsText()));
    for (const std::string& note : session_.Notes()) notes.push_back(note);
    session_.progress().Clear();
    return PrintTables(settings_.flags.output, std::move(tables));
  }

  const TrySettings& settings_;
  TrySession session_;
  Entry base_;
  std::vector<Entry> entries_;
  std::optional<Contest> contest_;
  bool is_by_own_time_ = true;
  double queued_ = 0;  // most that other threads waited for a processor, in steps
  LossChange own_losses_;
};

absl::StatusOr<int> RunTry(const Args& args) {
  ASSIGN_OR_RETURN(const TrySettings settings, ReadTrySettings(args));
  return WithKeeper(settings.run.folder, [&] { return Tryout(settings).Run(); });
}

}  // namespace

Command TryCommand() {
  return {
      .name = "try",
      .summary = "measure whether the program is faster with other settings",
      .operands = "PROGRAM [WORD]...",
      .flags = Joined({{{"budget", "TIME", "ends after this time, decided or not (default: 10min)"},
                        {"env", "NAME=VALUE,...", "try these values of a variable; may be repeated"},
                        {"arg", "--NAME=VALUE,...", "try these values of a flag of the program; may be repeated"},
                        {"pin", "LIST", "try it on these processors: 0-1,3; may be repeated"},
                        {"list", "", "what findings suggest and the list, besides --env, --arg and --pin"}},
                       ProgramFlags(),
                       VariableFlags(kBudgetFlag)}),
      .examples = {{"dlhook try -- python train.py", "threads, malloc, instruction sets ..., for 10 minutes"},
                   {"dlhook try --env OMP_NUM_THREADS=1,2,4 -- python train.py", "only these"},
                   {"dlhook try --arg --batch-size=32,64 -- python train.py",
                    "the time of a sample, where it is known"},
                   {"dlhook try --workdir-copy --budget 1h -- python train.py", "a program that writes checkpoints"}},
      .operand_count = {1, SIZE_MAX},
      .stops_at_operand = true,
      .details =
          "Runs the program as it is and with each variation in turns, each for some steps, and\n"
          "stops it: SIGINT, then SIGTERM, then SIGKILL to its process group. Without --env, --arg\n"
          "and --pin it tries what findings of the first run suggest, then a list of what makes sense\n"
          "on this machine. A test over paired rounds decides (docs/compare.md); what it could not\n"
          "decide in time is called so. Ctrl-C ends it with what is known. Nothing is left: no\n"
          "process, no file but those that the program writes itself.\n",
      .run = RunTry};
}

}  // namespace dlhook::analyzer::cli
