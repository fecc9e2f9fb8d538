// `dlhook replay`: runs the heaviest problems of a run again, alone, as they ran and in other ways, in turns, until the test of
// `dlhook try` decides. Children compute, each a Python with the run's framework (whatif/replay.py), one for each environment.
#include "analyzer/whatif/replay.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/io/child_process.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/work/step_facts.h"

// glossary.S
extern "C" const char dlhook_replay_py[];

namespace dlhook::analyzer::inline cli {
namespace {

using Json = nlohmann::json;
using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr char kStandardReplayBudget[] = "2min";
constexpr size_t kStandardTop = 8;
constexpr size_t kRoundsAtOnce = 3;  // of a problem, before the next one's turn
constexpr size_t kMostTurns = 10;    // what differs so little is not worth more
constexpr double kRunsAlone = 1.2;   // running threads: fewer are one
constexpr double kDisturbed = 0.1;   // of a measurement, waiting for processors: it decides nothing
constexpr int64_t kLeastCache = 16 << 20, kMostCache = 256 << 20;
constexpr std::chrono::seconds kGrace(20);  // for a measurement that began within the budget
constexpr const char* kLibraries[] = {"OMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "KMP_", "GOMP_", "BLIS_"};
constexpr size_t kWholeSetting = 63;  // bytes; longer settings were cut

struct ReplaySettings {
  std::string path, named, python, budget_text;
  size_t top = kStandardTop, threads = 0;  // 0: as in the run
  std::chrono::duration<double> budget{};
  const Renderer* renderer = nullptr;
  bool color = false;
};

absl::StatusOr<ReplaySettings> ReadReplaySettings(const Args& args) {
  ReplaySettings settings = {.path = args.operands().front(),
                             .named = args.Last("problem").value_or(""),
                             .python = args.Last("python").value_or(""),
                             .budget_text = args.Last("budget").value_or(kStandardReplayBudget)};
  for (const auto& [flag, value] : {std::pair("top", &settings.top), std::pair("threads", &settings.threads)}) {
    const std::optional<std::string> text = args.Last(flag);
    if (text && (!absl::SimpleAtoi(*text, value) || *value < 1))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " expects a number from 1 on, found '", *text, "'"));
  }
  const auto budget = ReadBudget(settings.budget_text);
  if (!budget.ok()) return budget.status();
  settings.budget = *budget;
  const auto renderer = ReadFormatFlag(args);
  if (!renderer.ok()) return renderer.status();
  settings.renderer = *renderer;
  const absl::StatusOr<bool> color = ReadColorFlag(args, STDOUT_FILENO);
  if (!color.ok()) return color.status();
  settings.color = *color;
  return settings;
}

// The Python whose packages the run loaded: "ENVIRONMENT/bin/python3" for "ENVIRONMENT/lib/python3.11/site-packages/…".
std::string PythonOf(const TraceModel& model, absl::string_view package) {
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) {
      const size_t lib = mapping.path.rfind("/lib/python");
      if (lib == std::string::npos || !absl::StrContains(mapping.path, package)) continue;
      const std::string python = absl::StrCat(mapping.path.substr(0, lib), "/bin/python3");
      if (access(python.c_str(), X_OK) == 0) return python;
    }
  }
  return "python3";
}

// How libraries computed in the run, as far as variables say it.
Variables SettingsOf(const ProcessInfo& process, size_t threads) {
  Variables settings;
  for (const auto& [name, value] : process.settings) {
    for (const char* library : kLibraries) {
      if (absl::StartsWith(name, library) && value.size() < kWholeSetting) settings.emplace_back(name, value);
    }
  }
  settings.emplace_back("OMP_NUM_THREADS", absl::StrCat(threads));  // the last of a name holds
  return settings;
}

size_t ThreadsOf(const StepFacts& facts) {
  size_t threads = 0;
  if (absl::SimpleAtoi(facts.Setting("OMP_NUM_THREADS"), &threads) && threads > 0) return threads;
  return facts.RunningThreads() < kRunsAlone ? 1 : std::max<size_t>(facts.processors(), 1);
}

void AddPrimitive(const Json& line, ReplayVariant* times) {
  times->library_ns.push_back(line["ns"]);
  times->implementation = line["implementation"];
}

// Of a framework's op: a problem of its own, if it is among those of the run.
void AddConversion(const Json& line, std::vector<Replayed>* problems) {
  Op op = {.kind = line["kind"], .problem = line["problem"]};
  op.tensors = ParseMemoryDescriptors(std::string(line["tensors"]));
  for (Replayed& replayed : *problems) {
    const ReplayProblem& problem = replayed.problem;
    if (problem.kind == op.kind && problem.problem == ProblemLabel(op) && problem.formats == FormatsLabel(op))
      AddPrimitive(line, &replayed.base);
  }
}

class Replaying {
 public:
  explicit Replaying(const ReplaySettings& settings) : settings_(settings), progress_(settings.path) {}

  absl::Status Prepare();
  int Run();

 private:
  absl::StatusOr<ChildProcess*> PythonFor(bool is_numpy, const Variables& environment);
  absl::StatusOr<Json> ReadAnswer(ChildProcess& process);
  absl::StatusOr<Json> Ask(bool is_numpy, const Variables& environment, const Json& request);
  bool Measure(size_t number, ReplayVariant* variant, bool is_cold = false);
  void RunRound(size_t number, bool is_backwards);
  void RunRounds();
  int Print();

  TryClock::time_point End() const { return start_ + std::chrono::duration_cast<TryClock::duration>(settings_.budget); }
  bool IsOver() const { return TryClock::now() >= End() || WasAsked() != Asked::kNothing; }

  const ReplaySettings& settings_;
  Progress progress_;
  TryClock::time_point start_;
  ReplayedRun run_;
  std::vector<Contest> contests_;  // of its problems
  size_t threads_ = 1;
  std::string pythons_[2];  // by through_numpy
  Variables of_run_;
  std::map<std::pair<bool, Variables>, ChildProcess> children_;
  std::set<std::string> frameworks_;     // with versions
  size_t measured_ = 0, disturbed_ = 0;  // measurements
};

absl::Status Replaying::Prepare() {
  absl::StatusOr<LoadedRun> run = OpenRun({settings_.path}, kWholeReading, progress_);
  progress_.Clear();
  if (!run.ok()) return run.status();
  for (const absl::Status& status : run->damage) PrintError(status.message());
  if (run->model.processes.empty()) return absl::InvalidArgumentError("nothing of the run can be read");
  const TraceModel& model = run->model;
  const RunAnalysis analysis(&run->model);
  const StepFacts facts(model, analysis.options());
  run_ = {.unit = facts.StepNoun(), .step_ns = facts.step_ns()};
  threads_ = settings_.threads > 0 ? settings_.threads : ThreadsOf(facts);
  of_run_ = SettingsOf(model.processes.front(), threads_);
  for (const bool is_numpy : {false, true})
    pythons_[is_numpy] = settings_.python.empty() ? PythonOf(model, is_numpy ? "/numpy" : "/torch/") : settings_.python;
  Ground ground = GroundOf(facts);
  ground.processors = std::max<size_t>(AllowedProcessors().size(), 1);
  ground.variable = [&facts](const std::string& name) { return facts.Setting(name); };
  const std::vector<Variation> listed = ListedVariations(ground, {}, run_.step_ns);
  for (ReplayProblem& problem : ReplayProblems(facts, settings_.top, settings_.named)) {
    Replayed replayed = {std::move(problem)};
    if (replayed.problem.reason.empty()) replayed.variants = VariantsOf(replayed.problem, ground, threads_, listed);
    contests_.emplace_back(replayed.variants.size());
    run_.problems.push_back(std::move(replayed));
  }
  if (!run_.problems.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no library call in the steps of the run that is recorded with its size",
                                          settings_.named.empty() ? "" : " and contains '" + settings_.named + "'"));
}

// What else a child writes is left out.
absl::StatusOr<Json> Replaying::ReadAnswer(ChildProcess& process) {
  const auto goes_on = [&] { return WasAsked() != Asked::kEnd && TryClock::now() < End() + kGrace; };
  while (true) {
    const absl::StatusOr<std::string> line = process.ReadLine(goes_on);
    if (!line.ok()) return line.status();
    Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (answer.is_object()) return answer;
  }
}

absl::StatusOr<ChildProcess*> Replaying::PythonFor(bool is_numpy, const Variables& environment) {
  std::vector<std::string> words = {"env"};
  for (const Variables* variables : {&std::as_const(of_run_), &environment}) {
    for (const auto& [name, value] : *variables) words.push_back(absl::StrCat(name, "=", value));
  }
  const int64_t cache = std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCache, kMostCache);
  words.insert(words.end(),
               {pythons_[is_numpy], "-B", "-c", dlhook_replay_py, is_numpy ? "numpy" : "torch", absl::StrCat(cache)});
  const auto [child, is_new] = children_.try_emplace({is_numpy, environment}, words);
  if (!is_new) return &child->second;
  Json specs;
  for (const Replayed& replayed : run_.problems) specs.push_back(replayed.problem.spec);
  child->second.Send(specs.dump() + "\n");
  const absl::StatusOr<Json> hello = ReadAnswer(child->second);
  if (!hello.ok()) return hello.status();
  frameworks_.insert(absl::StrCat(std::string((*hello)["name"]), " (", pythons_[is_numpy], ")"));
  return &child->second;
}

absl::StatusOr<Json> Replaying::Ask(bool is_numpy, const Variables& environment, const Json& request) {
  const absl::StatusOr<ChildProcess*> python = PythonFor(is_numpy, environment);
  if (python.ok()) (*python)->Send(request.dump() + "\n");
  absl::StatusOr<Json> answer = python.ok() ? ReadAnswer(**python) : python.status();
  if (!answer.ok()) children_.erase({is_numpy, environment});  // the next gets another
  return answer;
}

// False: it has no result that counts; `failure` says why, unless there was no time or no processor for it.
bool Replaying::Measure(size_t number, ReplayVariant* variant, bool is_cold) {
  if (IsOver()) return false;
  const ReplayProblem& problem = run_.problems[number].problem;
  progress_.Show(absl::StrCat(problem.kind, " ", problem.direction, " ", variant->name, " of"));
  Json request = variant->request;
  request.update({{"problem", number}, {"cold", is_cold}});
  const absl::StatusOr<Json> answer = Ask(problem.through_numpy, variant->environment, request);
  if (absl::IsCancelled(answer.status())) return false;
  variant->failure = answer.ok() ? answer->value("failure", "") : std::string(answer.status().message());
  if (!variant->failure.empty()) return false;
  const double ns = (*answer)["ns"], cpu_ns = (*answer)["cpu_ns"];
  if (is_cold) variant->cold_ns = ns;
  if (is_cold) return true;
  ++measured_;
  const bool is_disturbed = double{(*answer)["queued"]} > kDisturbed;
  disturbed_ += is_disturbed ? 1 : 0;
  if (is_disturbed && !variant->ns.empty()) return false;
  variant->cpu_ns = variant->ns.empty() ? cpu_ns : std::min(variant->cpu_ns, cpu_ns);
  variant->ns.push_back(ns);
  for (const Json& line : (*answer)["log"]) {
    if (line["kind"] == problem.kind) AddPrimitive(line, variant);
    if (line["kind"] == "reorder" && variant->name.empty()) AddConversion(line, &run_.problems);
  }
  return !is_disturbed;
}

void Replaying::RunRound(size_t number, bool is_backwards) {
  auto& [problem, base, variants] = run_.problems[number];
  std::vector<size_t> open = contests_[number].NextRound(), done;
  if (is_backwards) std::reverse(open.begin(), open.end());
  if (!is_backwards && !Measure(number, &base)) return;
  for (size_t i : open) {
    if (Measure(number, &variants[i])) done.push_back(i);
    if (!variants[i].failure.empty()) contests_[number].Fail(i);
  }
  if (is_backwards && !Measure(number, &base)) return;
  for (size_t i : done) contests_[number].Add(i, base.ns.back(), variants[i].ns.back());
}

// First all of them as they ran.
void Replaying::RunRounds() {
  for (size_t turn = 0; turn < kMostTurns; ++turn) {
    for (size_t number = 0; number < run_.problems.size(); ++number) {
      auto& [problem, base, variants] = run_.problems[number];
      if (!problem.reason.empty()) continue;
      if (turn == 0) Measure(number, &base);
      if (turn == 0 && base.failure.empty()) Measure(number, &base, /*is_cold=*/true);
      for (size_t round = 0; round < (turn < 2 ? turn : kRoundsAtOnce); ++round) {
        const bool is_done = contests_[number].NextRound().empty() && base.ns.size() >= kRoundsAtOnce;
        if (is_done || !base.failure.empty() || IsOver()) break;
        RunRound(number, round % 2 == 1);
      }
    }
  }
}

int Replaying::Print() {
  std::vector<std::string> notes;
  for (size_t number = 0; number < run_.problems.size(); ++number) {
    auto& [problem, base, variants] = run_.problems[number];
    for (size_t i = 0; i < variants.size(); ++i) {
      variants[i].outcome = contests_[number].outcome(i);
      variants[i].speed = contests_[number].speed(i);
    }
    if (base.ns.empty() && base.failure.empty())
      base.failure = problem.reason.empty() ? "the budget was used up before" : problem.reason;
    if (!base.implementation.empty() && base.implementation != problem.implementation)
      notes.push_back(absl::StrCat(problem.kind, " ", problem.direction, " of ", problem.layers, ": alone ",
                                   base.implementation, " was chosen, in the run ", problem.implementation, "."));
  }
  if (measured_ > 0) {
    notes.push_back(
        absl::StrFormat("Computed by %s, threads: %d. Times are without what threads waited for processors; %d of %d "
                        "measurements do not "
                        "count, because other programs had these. Bounds and outcomes hold for all variants of a "
                        "problem and all rounds "
                        "together with %.0f %% (sequential t-test of paired rounds); %.0f s.",
                        absl::StrJoin(frameworks_, ", "), threads_, disturbed_, measured_, 100 * (1 - kTryAlpha),
                        std::chrono::duration<double>(TryClock::now() - start_).count()));
    notes.emplace_back(
        "Gains are of these calls alone: conversions that a change needs elsewhere, or saves, are not in them.");
  }
  std::vector<Table> tables = ReplayTables(run_);
  tables.front().notes = std::move(notes);
  for (Table& table : tables) {
    if (settings_.renderer->name == "text") LimitRows(kTextLimit, &table);
  }
  progress_.Clear();
  return PrintOutput(Rendered(
      *settings_.renderer,
      {.run = nullptr, .tables = std::move(tables), .width = OutputWidth(STDOUT_FILENO), .color = settings_.color}));
}

int Replaying::Run() {
  start_ = TryClock::now();
  RunRounds();
  return WasAsked() == Asked::kEnd ? kExitBadInput : Print();
}

int RunReplay(const Args& args) {
  const absl::StatusOr<ReplaySettings> settings = ReadReplaySettings(args);
  if (!settings.ok()) return Fail("replay", settings.status());
  Replaying replaying(*settings);
  if (absl::Status status = replaying.Prepare(); !status.ok()) return Fail("replay", status);
  return WithKeeper("", [&] { return replaying.Run(); });
}

}  // namespace

Command ReplayCommand() {
  return {.name = "replay",
          .summary = "run the heaviest problems of a run again, alone and in other ways",
          .operands = "RUN",
          .flags = {{"top", "N", "so many problems, the heaviest first (default: 8)"},
                    {"problem", "TEXT", "only those whose size, or layers, contain TEXT"},
                    {"budget", "TIME", "ends after this time, decided or not (default: 2min)"},
                    {"threads", "N", "of the framework (default: as in the run, where it can be told)"},
                    {"python", "PYTHON", "interpreter with the framework (default: the run's)"},
                    {"format", "FORMAT", "text, csv or json (default: text)"},
                    ColorFlag()},
          .examples = {{"dlhook replay RUN", "would channels_last, bfloat16 or other kernels be faster?"},
                       {"dlhook replay RUN --problem layer1.0.conv1 --budget 30s", "of one layer"}},
          .min_operands = 1,
          .max_operands = 1,
          .details =
              [] {
                return std::string(
                    "Convolutions and matrix products that took most time in steady steps run again in a\n"
                    "Python with the run's PyTorch or NumPy: as they ran, and with what the same library\n"
                    "offers besides (memory format, type, instruction set, native kernels, threads), in\n"
                    "turns. A test over paired rounds decides (docs/compare.md). Ctrl-C ends it with what is\n"
                    "known. Nothing is left: no process, no file.\n");
              },
          .run = RunReplay};
}

}  // namespace dlhook::analyzer::cli
