// `dlhook contend`: runs the program alone and beside neighbours in turns, and says what they slow down, and by what.
#include <stdlib.h>

#include <filesystem>

#include "analyzer/calibrate/this_machine.h"
#include "analyzer/cli/neighbours.h"
#include "analyzer/io/resctrl.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/whatif/contend_table.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr char kStandardContendBudget[] = "10min";

struct ContendSettings {
  TryOptions run;
  TryFlags flags;
  NeighbourOptions neighbours;
  std::vector<int> pin;      // of the program; empty: everywhere
  std::string masks[2];      // of the program and its neighbours; empty: the whole cache
  std::string sys = "/sys";  // or a test's
  size_t rounds = 0;         // 0: until it is decided

  std::string Resctrl() const { return sys + "/fs/resctrl"; }
};

absl::Status ReadNumbers(const Args& args, ContendSettings* settings) {
  NeighbourOptions& neighbours = settings->neighbours;
  const size_t all = std::max<size_t>(AllowedProcessors().size(), 1);
  neighbours.copies = neighbours.processors.empty() ? all : neighbours.processors.size();
  const std::string intensity = args.Last("intensity").value_or("100");
  double percent = 0;
  if (!absl::SimpleAtod(intensity, &percent) || !(percent > 0 && percent <= 100))
    return Unexpected("intensity", "a part of the time in percent, from 1 to 100", intensity);
  neighbours.intensity = percent / 100;
  constexpr size_t kMost = 10000;
  RETURN_IF_ERROR(ReadNumber<size_t>(args, "neighbours", "a number from 1 on", 1, kMost, &neighbours.copies));
  return ReadNumber<size_t>(args, "rounds", "a number from 1 on", 1, kMost, &settings->rounds);
}

absl::Status ReadMasks(const Args& args, ContendSettings* settings) {
  const std::optional<std::string> text = args.Last("resctrl-mask");
  if (!text) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(*text, ':');
  for (size_t i = 0; i < parts.size() && i < 2; ++i) settings->masks[i] = parts[i];
  for (const std::string& mask : settings->masks) {
    uint64_t ways = 0;
    if (parts.size() > 2 || *text == ":" || !(mask.empty() || (absl::SimpleHexAtoi(mask, &ways) && ways > 0)))
      return Unexpected("resctrl-mask", "ways of the L3 cache in hexadecimal, PROGRAM:NEIGHBOURS such as ff0:f", *text);
  }
  const absl::Status status = CheckResctrl(settings->Resctrl());
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("--resctrl-mask: ", status.message()));
}

absl::StatusOr<ContendSettings> ReadContendSettings(const Args& args) {
  ContendSettings settings;
  settings.sys = args.Last("sys").value_or(settings.sys);
  settings.neighbours.commands = args.All("with");
  for (const std::string& name : args.All("load")) {
    ASSIGN_OR_RETURN(const LoadKind load, FindLoad(name));
    settings.neighbours.loads.push_back(load);
  }
  if (settings.neighbours.commands.empty() && settings.neighbours.loads.empty())
    return absl::InvalidArgumentError("beside what? --load processors, cache, memory or disk, or --with 'COMMAND'");
  ASSIGN_OR_RETURN(settings.pin, ReadProcessors(args.Last("pin"), "pin"));
  ASSIGN_OR_RETURN(settings.neighbours.processors, ReadProcessors(args.Last("pin-neighbours"), "pin-neighbours"));
  RETURN_IF_ERROR(ReadNumbers(args, &settings));
  RETURN_IF_ERROR(ReadMasks(args, &settings));
  ASSIGN_OR_RETURN(settings.flags, ReadTryFlags(args, kStandardContendBudget));
  ASSIGN_OR_RETURN(settings.run, PrepareTry("contend", args));
  settings.neighbours.folder = settings.run.folder;
  return settings;
}

class Contending {
 public:
  explicit Contending(const ContendSettings& settings)
      : settings_(settings),
        session_("contend", settings.run, settings.flags),
        neighbours_(settings.neighbours),
        watch_(settings.sys, settings.masks) {}

  int Run() {
    absl::Status status = watch_.Open();
    if (status.ok()) status = session_.First(Hooks(false)).status();
    bool is_backwards = false;
    while (status.ok() && WasAsked() == Asked::kNothing &&
           (settings_.rounds > 0 ? contended_.rounds.size() < settings_.rounds : !IsDecided(contended_.rounds))) {
      const absl::StatusOr<bool> round = RunRound(is_backwards);
      status = round.status();
      if (!round.ok() || !*round) break;
      is_backwards = !is_backwards;
    }
    if (WasAsked() == Asked::kEnd) return kExitBadInput;
    session_.progress().Clear();
    if (status.ok()) return Print();
    const int code = Fail("contend", status);
    if (!contended_.rounds.empty()) Print();  // what was known before
    return code;
  }

 private:
  TryHooks Hooks(bool is_beside) {
    return {.before_start =
                [this](pid_t program) {
                  if (!settings_.pin.empty()) RunOn(settings_.pin, program);
                  watch_.AddProgram(program);
                },
            .while_running = [this] { watch_.Look(); },
            .when_over =
                [this, is_beside] {
                  if (is_beside) stopped_ = neighbours_.Stop();
                }};
  }

  // False: there is no time for one.
  absl::StatusOr<bool> RunRound(bool is_backwards) {
    std::optional<ContendedRun> sides[2];
    for (const bool is_beside : {is_backwards, !is_backwards}) {
      ASSIGN_OR_RETURN(sides[is_beside], RunSide(is_beside));
      if (!sides[is_beside]) return false;
    }
    contended_.rounds.emplace_back(*std::move(sides[0]), *std::move(sides[1]));
    return true;
  }

  // Unset: there is no time for it.
  absl::StatusOr<std::optional<ContendedRun>> RunSide(bool is_beside) {
    watch_.Forget();
    stopped_ = absl::OkStatus();
    if (is_beside) {
      const absl::Status started = neighbours_.Start([this](pid_t neighbour) { watch_.AddNeighbour(neighbour); });
      if (!started.ok()) {
        const absl::Status stopped = neighbours_.Stop();
        return stopped.ok() ? started : stopped;
      }
    }
    const std::optional<TryRun> run = session_.Next({}, is_beside ? "beside" : "alone", Hooks(is_beside));
    if (is_beside) stopped_.Update(neighbours_.Stop());
    if (!run) return std::nullopt;
    if (!stopped_.ok()) return stopped_;
    if (!run->failure.empty())
      return absl::FailedPreconditionError(
          absl::StrCat("the program ", is_beside ? "beside its neighbours" : "alone", ": ", run->failure));
    ContendedRun read = watch_.Read(*run);
    std::error_code error;
    std::filesystem::remove_all(run->run, error);
    return read;
  }

  int Print() {
    contended_.unit = session_.unit();
    contended_.neighbours = neighbours_.uses();
    std::vector<Table> tables = ContendTables(contended_);
    std::vector<std::string>& notes = tables.front().notes;
    notes.push_back(absl::StrFormat(
        "Rounds, alone and beside in turns: %d. Bounds and outcomes of a table hold for all of its rows "
        "and all rounds together with %.0f %% (sequential t-test of paired rounds); %s.",
        contended_.rounds.size(), 100 * (1 - kTryAlpha), session_.RunsText()));
    if (getenv("DLHOOK_COUNTERS") != nullptr && !contended_.rounds.empty() &&
        contended_.rounds.front().first.counts.empty())
      notes.emplace_back("None of the counters asked for was recorded: dlhook counters says why.");
    for (const std::vector<std::string>& more : {watch_.notes(), session_.Notes()})
      notes.insert(notes.end(), more.begin(), more.end());
    session_.progress().Clear();
    return PrintTables(settings_.flags.output, std::move(tables), kTextLimit);
  }

  const ContendSettings& settings_;
  TrySession session_;
  Neighbours neighbours_;
  MachineWatch watch_;
  Contended contended_;
  absl::Status stopped_;  // of the neighbours of the last run
};

absl::StatusOr<int> RunContend(const Args& args) {
  ASSIGN_OR_RETURN(const ContendSettings settings, ReadContendSettings(args));
  return WithKeeper(
      settings.run.folder, [&] { return Contending(settings).Run(); },
      [&] { RemoveResctrlGroups(settings.Resctrl(), getpid()); });
}

}  // namespace

Command ContendCommand() {
  return {.name = "contend",
          .summary = "measure what other programs on the machine slow down, and by what",
          .operands = "PROGRAM [WORD]...",
          .flags = Joined({{{"load", "KIND", "neighbours: processors, cache, memory or disk; may be repeated"},
                            {"with", "COMMAND", "neighbours: this command of a shell; may be repeated"},
                            {"neighbours", "N", "copies of each (default: as many as they have processors)"},
                            {"intensity", "PERCENT", "a load works for this part of the time (default: 100)"},
                            {"pin", "LIST", "the program's processors: 0-1,3 (default: all)"},
                            {"pin-neighbours", "LIST", "the neighbours' processors (default: all)"},
                            {"resctrl-mask", "MASKS", "ways of the L3 cache: PROGRAM:NEIGHBOURS, ff0:f"},
                            {"rounds", "N", "so many (default: until it is decided, 6 or more)"},
                            {"budget", "TIME", "ends after this time, decided or not (default: 10min)"},
                            {"sys", "FOLDER", "where resctrl and powercap are looked for (default: /sys)"}},
                           ProgramFlags(),
                           VariableFlags(kBudgetFlag)}),
          .examples = {{"dlhook contend --load processors -- python train.py", "beside a busy loop for each processor"},
                       {"dlhook contend --load memory --pin 0-3 --pin-neighbours 4-7 -- python train.py",
                        "shared caches and memory, but no shared processor"},
                       {"dlhook contend --with 'python serve.py' --neighbours 1 -- python train.py",
                        "beside another program"},
                       {"dlhook contend --load cache --counters basic -- python train.py",
                        "with what the processor counts"}},
          .operand_count = {1, SIZE_MAX},
          .stops_at_operand = true,
          .details =
              "Runs the program alone and beside its neighbours in turns, each for some steps, and\n"
              "stops it as dlhook try does. A test over paired rounds says what became longer: the\n"
              "step, the time on a processor, the wait for one, blocked; and which phases, layers and\n"
              "operations beyond all others (docs/compare.md). What can't be told apart is called so.\n"
              "Ctrl-C ends it with what is known. Nothing is left: no process, no file, no group of\n"
              "resctrl.\n",
          .run = RunContend};
}

}  // namespace dlhook::analyzer::cli
