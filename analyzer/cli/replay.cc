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
#include "absl/strings/str_join.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/tables.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/io/child_process.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/whatif/contest.h"
#include "analyzer/whatif/replay_problems.h"
#include "analyzer/whatif/replay_table.h"
#include "analyzer/work/step_facts.h"
#include "nlohmann/json.hpp"

// replay_py.S
extern "C" const char dlhook_replay_py[];

namespace dlhook::analyzer::inline cli {
namespace {

using Json = nlohmann::json;
using Variables = ChildProcess::Variables;

constexpr char kStandardReplayBudget[] = "2min";
constexpr size_t kStandardTop = 8;
constexpr size_t kReplayRounds = 3;   // at least, also where there is nothing to decide
constexpr size_t kMostRounds = 30;    // what differs so little is not worth more
constexpr double kRunsAlone = 1.2;    // running threads: fewer are one
constexpr size_t kWholeSetting = 63;  // bytes; longer settings were cut
constexpr int64_t kLeastCache = 16 << 20, kMostCache = 256 << 20;
constexpr const char* kLibraryPrefixes[] = {"OMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "KMP_", "GOMP_", "BLIS_"};
constexpr std::chrono::seconds kGrace(20);  // for a measurement that began within the budget

struct ReplaySettings {
  std::string path;
  size_t top = kStandardTop;
  std::string named, python, budget_text;
  std::chrono::duration<double> budget{};
  size_t threads = 0;  // 0: as in the run
  const Renderer* renderer = nullptr;
  bool color = false;
};

absl::StatusOr<ReplaySettings> ReadReplaySettings(const Args& args) {
  ReplaySettings settings = {.path = args.operands().front()};
  for (const auto& [flag, value] : {std::pair("top", &settings.top), std::pair("threads", &settings.threads)}) {
    const std::optional<std::string> text = args.Last(flag);
    if (text && (!absl::SimpleAtoi(*text, value) || *value < 1))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " expects a number from 1 on, found '", *text, "'"));
  }
  settings.named = args.Last("problem").value_or("");
  settings.python = args.Last("python").value_or("");
  settings.budget_text = args.Last("budget").value_or(kStandardReplayBudget);
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

// Settings of the run that decide how libraries compute.
Variables SettingsOf(const TraceModel& model) {
  Variables settings;
  if (model.processes.empty()) return settings;
  for (const auto& [name, value] : model.processes.front().settings) {
    const bool is_libraries =
        std::any_of(std::begin(kLibraryPrefixes), std::end(kLibraryPrefixes),
                    [&name = name](const char* prefix) { return absl::StartsWith(name, prefix); });
    if (is_libraries && value.size() < kWholeSetting) settings.emplace_back(name, value);
  }
  return settings;
}

size_t ThreadsOf(const StepFacts& facts) {
  size_t threads = 0;
  if (absl::SimpleAtoi(facts.Setting("OMP_NUM_THREADS"), &threads) && threads > 0) return threads;
  return facts.RunningThreads() < kRunsAlone ? 1 : std::max<size_t>(facts.processors(), 1);
}

struct ReplayEntry {
  Replayed replayed;
  size_t number = 0;  // in the list that its children get
  Contest contest{0};
};

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
  bool Measure(ReplayEntry* entry, const ReplayVariant& variant, bool is_cold, ReplayTimes* times);
  bool RunRound(ReplayEntry* entry, bool is_backwards);
  void RunRounds();
  void MeasureBestCold();
  int Print();

  TryClock::time_point End() const { return start_ + std::chrono::duration_cast<TryClock::duration>(settings_.budget); }
  bool IsOver() const { return TryClock::now() >= End() || WasAsked() != Asked::kNothing; }

  const ReplaySettings& settings_;
  Progress progress_;
  TryClock::time_point start_;
  std::string unit_;
  double step_ns_ = 0;
  size_t threads_ = 1;
  std::map<bool, std::string> pythons_;  // by through_numpy
  std::map<bool, Json> specs_;
  std::vector<std::string> library_paths_;
  Variables settings_of_run_;
  std::vector<ReplayEntry> entries_;
  std::map<std::pair<bool, Variables>, Python> children_;
  std::vector<std::string> notes_;
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
  unit_ = facts.StepNoun();
  step_ns_ = facts.step_ns();
  threads_ = settings_.threads > 0 ? settings_.threads : ThreadsOf(facts);
  settings_of_run_ = SettingsOf(model);
  for (const bool is_numpy : {false, true}) {
    pythons_[is_numpy] = settings_.python.empty() ? PythonOf(model, is_numpy ? "/numpy" : "/torch/") : settings_.python;
    specs_[is_numpy] = Json::array();
  }
  for (const ProcessInfo& process : model.processes) {
    for (const Mapping& mapping : process.mappings) library_paths_.push_back(mapping.path);
  }
  Ground ground = GroundOf(facts);
  ground.processors = std::max<size_t>(sysconf(_SC_NPROCESSORS_ONLN), 1);
  ground.variable = [this](const std::string& name) {
    for (const auto& [set, value] : settings_of_run_) {
      if (set == name) return value;
    }
    return std::string();
  };
  const std::vector<Variation> listed = ListedVariations(ground, {}, step_ns_);
  for (ReplayProblem& problem : ReplayProblems(facts, settings_.top, settings_.named)) {
    entries_.emplace_back();
    ReplayEntry& entry = entries_.back();
    if (!problem.spec.empty()) {
      for (ReplayVariant& variant : VariantsOf(problem, ground, threads_, listed)) {
        entry.replayed.tried.emplace_back();
        static_cast<ReplayVariant&>(entry.replayed.tried.back()) = std::move(variant);
      }
      Json& specs = specs_[Json::parse(problem.spec)["through"] == "numpy"];
      entry.number = specs.size();
      specs.push_back(Json::parse(problem.spec));
    }
    entry.contest = Contest(entry.replayed.tried.size());
    entry.replayed.problem = std::move(problem);
  }
  if (entries_.empty() && !settings_.named.empty())
    return absl::NotFoundError(
        absl::StrCat("no problem of the run's steps, and no layer with one, contains '", settings_.named, "'"));
  return absl::OkStatus();
}

// Lines that libraries wrote are left out.
absl::StatusOr<Json> Replaying::ReadAnswer(ChildProcess& process) {
  const auto goes_on = [&] { return WasAsked() != Asked::kEnd && TryClock::now() < End() + kGrace; };
  while (true) {
    const absl::StatusOr<std::string> line = process.ReadLine(goes_on);
    if (absl::IsCancelled(line.status())) process.Kill();
    if (!line.ok()) return line.status();
    Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (answer.is_object()) return answer;
  }
}

absl::StatusOr<Replaying::Python*> Replaying::PythonFor(const ReplayProblem& problem, const Variables& environment) {
  const bool is_numpy = problem.through_numpy && !problem.is_onednn;
  const auto key = std::pair(is_numpy, environment);
  if (const auto known = children_.find(key); known != children_.end()) return &known->second;
  Variables variables = environment;
  variables.insert(variables.end(), settings_of_run_.begin(), settings_of_run_.end());
  variables.emplace_back("OMP_NUM_THREADS", absl::StrCat(threads_));
  const int64_t cache = std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCache, kMostCache);
  Python python;
  python.process = std::make_unique<ChildProcess>(
      std::vector<std::string>{pythons_[is_numpy], "-B", "-c", dlhook_replay_py, absl::StrCat(cache)}, variables);
  python.process->Send(specs_[is_numpy].dump() + "\n");
  absl::StatusOr<Json> hello = ReadAnswer(*python.process);
  if (!hello.ok()) return hello.status();
  python.hello = *std::move(hello);
  return &children_.emplace(key, std::move(python)).first->second;
}

// What oneDNN's log told of the call: the primitive of the problem's kind.
void ReadLog(const Json& log, const ReplayProblem& problem, ReplayTimes* times) {
  for (const Json& line : log) {
    if (!absl::StartsWith(problem.kind, line["kind"].get<std::string>())) continue;
    Op op;
    op.tensors = ParseMemoryDescriptors(line["tensors"].get<std::string>());
    times->implementation = line["implementation"].get<std::string>();
    times->formats = FormatsLabel(op);
    times->library_ns.push_back(line["ns"].get<double>());
    return;
  }
}

// False: it has no result; `times->failure` says why, unless there is no time for more.
bool Replaying::Measure(ReplayEntry* entry, const ReplayVariant& variant, bool is_cold, ReplayTimes* times) {
  if (IsOver()) return false;
  const ReplayProblem& problem = entry->replayed.problem;
  progress_.Show(absl::StrCat(problem.kind, variant.name.empty() ? "" : absl::StrCat(" (", variant.name, ")"), " of"));
  const absl::StatusOr<Python*> python = PythonFor(problem, variant.environment);
  Json request = variant.request.empty() ? Json::object() : Json::parse(variant.request);
  request["problem"] = entry->number;
  if (is_cold) request["cold"] = true;
  if (python.ok()) (*python)->process->Send(request.dump() + "\n");
  const absl::StatusOr<Json> answer = python.ok() ? ReadAnswer(*(*python)->process) : python.status();
  if (!answer.ok()) {
    std::erase_if(children_, [&](const auto& child) { return python.ok() && &child.second == *python; });
    if (!absl::IsCancelled(answer.status())) times->failure = std::string(answer.status().message());
    return false;
  }
  if (answer->contains("failure")) {
    times->failure = (*answer)["failure"].get<std::string>();
    return false;
  }
  const double ns = (*answer)["ns"].get<double>();
  if (is_cold) {
    times->cold_ns = ns;
    return true;
  }
  const double cpu_ns = (*answer)["cpu_ns"].get<double>();
  times->cpu_ns = times->ns.empty() ? cpu_ns : std::min(times->cpu_ns, cpu_ns);
  times->ns.push_back(ns);
  ReadLog((*answer)["log"], problem, times);
  return true;
}

// False: no time is left.
bool Replaying::RunRound(ReplayEntry* entry, bool is_backwards) {
  Replayed& replayed = entry->replayed;
  std::vector<size_t> open = entry->contest.NextRound();
  if (is_backwards) std::reverse(open.begin(), open.end());
  const auto measure_base = [&] { return Measure(entry, {}, false, &replayed.base); };
  if (!is_backwards && !measure_base()) return !IsOver();
  std::vector<size_t> done;
  for (size_t i : open) {
    if (Measure(entry, replayed.tried[i], false, &replayed.tried[i])) {
      done.push_back(i);
    } else if (!replayed.tried[i].failure.empty()) {
      entry->contest.Fail(i);
    } else {
      break;
    }
  }
  if (is_backwards && !measure_base()) return !IsOver();
  for (size_t i : done) entry->contest.Add(i, replayed.base.ns.back(), replayed.tried[i].ns.back());
  if (replayed.base.cold_ns == 0) Measure(entry, {}, true, &replayed.base);
  return !IsOver();
}

void Replaying::RunRounds() {
  bool is_backwards = false;
  for (size_t round = 0; round < kMostRounds; ++round, is_backwards = !is_backwards) {
    bool is_any_open = false;
    for (ReplayEntry& entry : entries_) {
      const Replayed& replayed = entry.replayed;
      if (replayed.problem.spec.empty() || !replayed.base.failure.empty()) continue;
      if (round >= kReplayRounds && entry.contest.NextRound().empty()) continue;
      is_any_open = true;
      if (!RunRound(&entry, is_backwards)) return;
    }
    if (!is_any_open) return;
  }
}

void Replaying::MeasureBestCold() {
  for (ReplayEntry& entry : entries_) {
    for (size_t i = 0; i < entry.replayed.tried.size(); ++i) {
      ReplayTried& variant = entry.replayed.tried[i];
      variant.outcome = entry.contest.outcome(i);
      variant.speed = entry.contest.speed(i);
      if (variant.outcome == Outcome::kFaster) Measure(&entry, variant, true, &variant);
    }
  }
}

int Replaying::Print() {
  ReplayedRun run = {.unit = unit_, .step_ns = step_ns_};
  for (ReplayEntry& entry : entries_) {
    Replayed& replayed = entry.replayed;
    const std::string &there = replayed.problem.implementation, &here = replayed.base.implementation;
    if (!here.empty() && here != there)
      notes_.push_back(absl::StrCat(replayed.problem.kind, " of ", replayed.problem.layers,
                                    ": alone the library chose ", here, ", in the run ", there, "."));
    if (replayed.base.ns.empty() && replayed.base.failure.empty() && replayed.problem.reason.empty())
      replayed.base.failure = absl::StrCat("the budget of ", settings_.budget_text, " was used up before");
    run.problems.push_back(replayed);
  }
  std::vector<Table> tables = ReplayTables(run);
  for (const auto& [key, child] : children_) {
    if (!key.second.empty()) continue;
    const std::string path = child.hello.value("path", "");
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const bool is_same = std::any_of(library_paths_.begin(), library_paths_.end(),
                                     [&](const std::string& library) { return absl::StartsWith(library, folder); });
    notes_.push_back(absl::StrCat("Computed by ", child.hello.value("framework", ""), " (", pythons_[key.first],
                                  is_same ? "), which the run used, " : "), which is not what the run used, ", "with ",
                                  threads_, threads_ == 1 ? " thread." : " threads."));
  }
  notes_.push_back(
      absl::StrFormat("Times are without what threads waited for processors; bounds and outcomes hold for all variants "
                      "of a problem and rounds together with %.0f %% (sequential t-test of paired "
                      "rounds); %.0f s%s.",
                      100 * (1 - kTryAlpha), std::chrono::duration<double>(TryClock::now() - start_).count(),
                      TryClock::now() >= End() ? absl::StrCat(", the budget of ", settings_.budget_text) : ""));
  notes_.emplace_back(
      "The gain counts these calls only: conversions between formats or types that a change needs elsewhere, or saves, "
      "are not in it.");
  std::vector<std::string>& notes = tables.front().notes;
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  progress_.Clear();
  return PrintOutput(Rendered(
      *settings_.renderer,
      {.run = nullptr, .tables = std::move(tables), .width = OutputWidth(STDOUT_FILENO), .color = settings_.color}));
}

int Replaying::Run() {
  start_ = TryClock::now();
  RunRounds();
  if (WasAsked() == Asked::kEnd) return kExitBadInput;
  MeasureBestCold();
  return Print();
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
          .summary = "run the heaviest problems of a run again, alone, in other ways",
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
