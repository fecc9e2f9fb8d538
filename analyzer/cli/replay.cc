// `dlhook replay`: runs the heaviest problems of a run again, alone, as they ran and in other ways, in turns, until the test of
// `dlhook try` decides. Children compute, each a Python with the run's framework (whatif/replay.py), one for each environment.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/io/child_process.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/whatif/replay_table.h"
#include "analyzer/whatif/try_table.h"
#include "analyzer/work/step_facts.h"

// replay_py.S
extern "C" const char dlhook_replay_py[];

namespace dlhook::analyzer::inline cli {
namespace {

using Json = nlohmann::json;
using Variables = ChildProcess::Variables;

constexpr char kStandardReplayBudget[] = "2min";
constexpr size_t kStandardTop = 8;
constexpr size_t kRoundsAtOnce = 3;  // of a problem, before the next one's turn
constexpr size_t kMostTurns = 10;    // what differs so little is not worth more
constexpr double kRunsAlone = 1.2;   // running threads: fewer are one
constexpr int64_t kLeastCache = 16 << 20, kMostCache = 256 << 20;
constexpr std::chrono::seconds kGrace(20);       // for a measurement that began within the budget
constexpr double kDisturbed = 0.1;               // of a measurement, waiting for processors: it decides nothing
constexpr double kDiffers = 1.25, kFaults = 64;  // alone from in the run; of a call: that explains it
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

// The Python whose packages the run loaded: "ENVIRONMENT/bin/python3.11" for "ENVIRONMENT/lib/python3.11/site-packages/…".
std::string PythonOf(const TraceModel& model, absl::string_view package) {
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) {
      const size_t lib = mapping.path.rfind("/lib/python");
      if (lib == std::string::npos || !absl::StrContains(mapping.path, package)) continue;
      const size_t name = lib + sizeof("/lib/") - 1;
      const std::string python = absl::StrCat(mapping.path.substr(0, lib), "/bin/",
                                              mapping.path.substr(name, mapping.path.find('/', name) - name));
      if (access(python.c_str(), X_OK) == 0) return python;
    }
  }
  return "python3";
}

// How libraries computed in the run, as far as variables say it.
Variables SettingsOf(const TraceModel& model) {
  Variables settings;
  for (const auto& [name, value] : model.processes.front().settings) {
    for (const char* library : kLibraries) {
      if (absl::StartsWith(name, library) && value.size() < kWholeSetting) settings.emplace_back(name, value);
    }
  }
  return settings;
}

size_t ThreadsOf(const StepFacts& facts) {
  size_t threads = 0;
  if (absl::SimpleAtoi(facts.Setting("OMP_NUM_THREADS"), &threads) && threads > 0) return threads;
  return facts.RunningThreads() < kRunsAlone ? 1 : std::max<size_t>(facts.processors(), 1);
}

void AddPrimitive(const Json& line, ReplayTimes* times) {
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
  struct Python {
    std::unique_ptr<ChildProcess> process;
    Json hello;
  };

  absl::StatusOr<Python*> PythonFor(const ReplayProblem& problem, const Variables& environment);
  absl::StatusOr<Json> ReadAnswer(ChildProcess& process);
  bool Measure(size_t number, ReplayTried* variant, bool is_cold = false);
  void RunRound(size_t number, bool is_backwards);
  void RunRounds();
  void Conclude();
  void AddNotes(Table* table) const;
  int Print();

  TryClock::time_point End() const { return start_ + std::chrono::duration_cast<TryClock::duration>(settings_.budget); }
  bool IsOver() const { return TryClock::now() >= End() || WasAsked() != Asked::kNothing; }

  const ReplaySettings& settings_;
  Progress progress_;
  TryClock::time_point start_;
  ReplayedRun run_;
  std::vector<Contest> contests_;  // of its problems
  size_t threads_ = 1;
  std::string pythons_[2];              // by through_numpy
  std::vector<std::string> libraries_;  // of the run, paths
  Variables of_run_;
  std::map<std::pair<bool, Variables>, Python> children_;
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
  of_run_ = SettingsOf(model);
  for (const bool is_numpy : {false, true})
    pythons_[is_numpy] = settings_.python.empty() ? PythonOf(model, is_numpy ? "/numpy" : "/torch/") : settings_.python;
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) libraries_.push_back(mapping.path);
  }
  Ground ground = GroundOf(facts);
  ground.processors = std::max<size_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
  ground.variable = [&facts](const std::string& name) { return facts.Setting(name); };
  const std::vector<Variation> listed = ListedVariations(ground, {}, run_.step_ns);
  for (ReplayProblem& problem : ReplayProblems(facts, settings_.top, settings_.named)) {
    Replayed replayed;
    if (!problem.spec.is_null()) {
      for (ReplayVariant& variant : VariantsOf(problem, ground, threads_, listed))
        replayed.tried.push_back({std::move(variant)});
    }
    contests_.emplace_back(replayed.tried.size());
    replayed.problem = std::move(problem);
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

absl::StatusOr<Replaying::Python*> Replaying::PythonFor(const ReplayProblem& problem, const Variables& environment) {
  const auto key = std::pair(problem.through_numpy, environment);
  if (const auto known = children_.find(key); known != children_.end()) return &known->second;
  Variables variables = environment;
  variables.insert(variables.end(), of_run_.begin(), of_run_.end());
  variables.emplace_back("OMP_NUM_THREADS", absl::StrCat(threads_));
  const int64_t cache = std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCache, kMostCache);
  const std::vector<std::string> words = {
      pythons_[key.first], "-B", "-c", dlhook_replay_py, key.first ? "numpy" : "torch", absl::StrCat(cache)};
  Python python = {std::make_unique<ChildProcess>(words, variables), {}};
  Json specs;
  for (const Replayed& replayed : run_.problems) specs.push_back(replayed.problem.spec);
  python.process->Send(specs.dump() + "\n");
  absl::StatusOr<Json> hello = ReadAnswer(*python.process);
  if (!hello.ok()) return hello.status();
  python.hello = *std::move(hello);
  return &children_.emplace(key, std::move(python)).first->second;
}

// `variant`: null: as the run did. False: it has no result; its `failure` says why, unless there was no time for it.
bool Replaying::Measure(size_t number, ReplayTried* variant, bool is_cold) {
  if (IsOver()) return false;
  Replayed& replayed = run_.problems[number];
  ReplayTimes& times = variant == nullptr ? replayed.base : *variant;
  progress_.Show(absl::StrCat(replayed.problem.kind, " ", replayed.problem.direction, " ",
                              variant == nullptr ? "" : variant->name, " of"));
  Json request = variant == nullptr ? Json::object() : variant->request;
  request.update({{"problem", number}, {"cold", is_cold}});
  const absl::StatusOr<Python*> python =
      PythonFor(replayed.problem, variant == nullptr ? Variables() : variant->environment);
  if (python.ok()) (*python)->process->Send(request.dump() + "\n");
  const absl::StatusOr<Json> answer = python.ok() ? ReadAnswer(*(*python)->process) : python.status();
  if (!answer.ok()) {
    std::erase_if(children_, [&](const auto& child) { return python.ok() && &child.second == *python; });
    if (!absl::IsCancelled(answer.status())) times.failure = std::string(answer.status().message());
    return false;
  }
  times.failure = answer->value("failure", "");
  if (!times.failure.empty()) return false;
  const double ns = (*answer)["ns"];
  if (is_cold) {
    times.cold_ns = ns;
    return true;
  }
  ++measured_;
  const bool is_disturbed = double{(*answer)["queued"]} > kDisturbed;
  disturbed_ += is_disturbed ? 1 : 0;
  if (is_disturbed && !times.ns.empty()) return false;
  const auto least = [&](double before, const char* name) {
    return times.ns.empty() ? double{(*answer)[name]} : std::min(before, double{(*answer)[name]});
  };
  times.cpu_ns = least(times.cpu_ns, "cpu_ns");
  times.faults = least(times.faults, "faults");
  times.ns.push_back(ns);
  for (const Json& line : (*answer)["log"]) {
    if (line["kind"] == replayed.problem.kind) AddPrimitive(line, &times);
    if (line["kind"] == std::string(OpKindName(OpKind::kReorder)) && variant == nullptr)
      AddConversion(line, &run_.problems);
  }
  return !is_disturbed;
}

void Replaying::RunRound(size_t number, bool is_backwards) {
  Replayed& replayed = run_.problems[number];
  std::vector<size_t> open = contests_[number].NextRound(), done;
  if (is_backwards) std::reverse(open.begin(), open.end());
  if (!is_backwards && !Measure(number, nullptr)) return;
  for (size_t i : open) {
    ReplayTried& variant = replayed.tried[i];
    if (Measure(number, &variant)) done.push_back(i);
    if (!variant.failure.empty()) contests_[number].Fail(i);
  }
  if (is_backwards && !Measure(number, nullptr)) return;
  for (size_t i : done) contests_[number].Add(i, replayed.base.ns.back(), replayed.tried[i].ns.back());
}

// First all of them as they ran.
void Replaying::RunRounds() {
  for (size_t turn = 0; turn < kMostTurns; ++turn) {
    for (size_t number = 0; number < run_.problems.size(); ++number) {
      const Replayed& replayed = run_.problems[number];
      if (turn == 0 && !replayed.problem.spec.is_null() && Measure(number, nullptr))
        Measure(number, nullptr, /*is_cold=*/true);
      for (size_t round = 0; round < (turn < 2 ? turn : kRoundsAtOnce); ++round) {
        if (contests_[number].NextRound().empty() || !replayed.base.failure.empty() || IsOver()) break;
        RunRound(number, round % 2 == 1);
      }
    }
  }
}

void Replaying::Conclude() {
  for (size_t number = 0; number < run_.problems.size(); ++number) {
    Replayed& replayed = run_.problems[number];
    for (size_t i = 0; i < replayed.tried.size(); ++i) {
      ReplayTried& variant = replayed.tried[i];
      variant.outcome = contests_[number].outcome(i);
      variant.speed = contests_[number].speed(i);
      if (variant.outcome == Outcome::kFaster) Measure(number, &variant, /*is_cold=*/true);
    }
    if (replayed.base.failure.empty() && replayed.problem.reason.empty())
      replayed.base.failure = absl::StrCat("the budget of ", settings_.budget_text, " was used up before");
  }
}

void Replaying::AddNotes(Table* table) const {
  std::vector<std::string>& notes = table->notes;
  for (const Replayed& replayed : run_.problems) {
    const ReplayTimes& base = replayed.base;
    const ReplayProblem& problem = replayed.problem;
    const std::string name = absl::StrCat(problem.kind, " ", problem.direction, " of ", problem.layers);
    if (!base.implementation.empty() && base.implementation != problem.implementation)
      notes.push_back(absl::StrCat(name, ": alone the library chose ", base.implementation, ", in the run ",
                                   problem.implementation, "."));
    const double ratio = BoundsOf(base.library_ns.empty() ? base.ns : base.library_ns).mean / problem.call_ns;
    if (base.faults > kFaults && (ratio > kDiffers || ratio < 1 / kDiffers))
      notes.push_back(absl::StrFormat("%s: alone each call has %.0f page faults, for memory that is new to it.", name,
                                      base.faults));
  }
  for (const auto& [key, child] : children_) {
    if (!key.second.empty()) continue;
    const std::string path = child.hello["path"], folder = path.substr(0, path.rfind('/') + 1);
    const bool is_same = std::any_of(libraries_.begin(), libraries_.end(),
                                     [&](const std::string& library) { return absl::StartsWith(library, folder); });
    notes.push_back(absl::StrCat("Computed by ", std::string(child.hello["name"]),
                                 is_same ? " of the run (" : ", which the run did not use (", pythons_[key.first],
                                 "), threads: ", threads_, "."));
  }
  notes.push_back(absl::StrFormat(
      "Times are without what threads waited for processors; %d of %d measurements do not count, because other "
      "programs "
      "had these. Bounds and outcomes hold for all variants of a problem and all rounds together with %.0f %% "
      "(sequential "
      "t-test of paired rounds); %.0f s.",
      disturbed_, measured_, 100 * (1 - kTryAlpha), std::chrono::duration<double>(TryClock::now() - start_).count()));
  notes.emplace_back(
      "Gains are of these calls alone: conversions that a change needs elsewhere, or saves, are not in them.");
}

int Replaying::Print() {
  std::vector<Table> tables = ReplayTables(run_);
  if (measured_ > 0) AddNotes(&tables.front());
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
  Conclude();
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
