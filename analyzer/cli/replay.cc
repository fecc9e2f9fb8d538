// `dlhook replay`: runs the heaviest problems of a run again, alone, as they ran and in other ways, in turns, until the test of
// `dlhook try` decides. Children compute, each a Python with the run's framework (whatif/replay.py), one for each environment.
#include "analyzer/whatif/replay.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/child_process.h"
#include "analyzer/io/run_folder.h"
#include "analyzer/model/onednn_text.h"
#include "analyzer/model/release.h"
#include "analyzer/table/table_ops.h"

// glossary.S
extern "C" const char dlhook_replay_py[];

namespace dlhook::analyzer::inline cli {
namespace {

using Json = nlohmann::json;
using ReplayVariables = std::vector<std::pair<std::string, std::string>>;

constexpr char kStandardReplayBudget[] = "2min";
constexpr size_t kRoundsAtOnce = 3;  // of a problem, before the next one's turn
constexpr size_t kMostTurns = 10;    // what differs so little is not worth more
constexpr double kRunsAlone = 1.2;   // running threads: fewer are one
constexpr double kDisturbed = 0.1;   // of a measurement, waiting for processors: it decides nothing
constexpr int64_t kLeastCache = 16 << 20;
constexpr std::chrono::seconds kGraceOfMeasurement(20);  // for a measurement that began within the budget
constexpr const char* kLibraries[] = {"OMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "KMP_", "GOMP_", "BLIS_"};
constexpr size_t kWholeSetting = 63;  // bytes; longer settings were cut

struct ReplaySettings {
  std::string path, named, python;
  size_t top = 8, threads = 0;  // 0: as in the run
  TryFlags flags;
};

absl::StatusOr<ReplaySettings> ReadReplaySettings(const Args& args) {
  ReplaySettings settings = {.path = args.operands().front(),
                             .named = args.Last("problem").value_or(""),
                             .python = args.Last("python").value_or("")};
  for (const auto& [flag, value] : {std::pair("top", &settings.top), std::pair("threads", &settings.threads)}) {
    const std::optional<std::string> text = args.Last(flag);
    if (text && (!absl::SimpleAtoi(*text, value) || *value < 1))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " expects a number from 1 on, found '", *text, "'"));
  }
  if (const size_t most = AllowedProcessors().size(); settings.threads > std::max<size_t>(most, 1))
    return absl::InvalidArgumentError(absl::StrCat("--threads: this process may use ", most, " processors"));
  const absl::Status status = Store(ReadTryFlags(args, kStandardReplayBudget), &settings.flags);
  if (!status.ok()) return status;
  return settings;
}

// A run may come from anybody. Why an interpreter that it names is not started; empty: it is.
std::string ReasonAgainst(const std::string& python) {
  struct stat file;
  if (stat(python.c_str(), &file) != 0 || access(python.c_str(), X_OK) != 0) return "it is gone";
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write it";
  const std::string folder = FolderOf(python);
  for (const std::string& part : {python, folder, FolderOf(folder)}) {
    if (!IsOwn(part)) return part + " belongs to another user";
    if (stat(part.c_str(), &file) != 0 || (file.st_mode & S_IWOTH) != 0) return "anyone may write " + part;
  }
  return "";
}

// The Python whose packages the run loaded: "ENVIRONMENT/bin/python3" for "ENVIRONMENT/lib/python3.11/site-packages/…".
// And the reason against it.
std::pair<std::string, std::string> PythonOf(const TraceModel& model, absl::string_view package) {
  std::pair<std::string, std::string> found;
  for (const std::string& path : MappedFiles(model, package)) {
    const size_t lib = path.rfind("/lib/python");
    if (lib == std::string::npos || path.front() != '/') continue;
    found.first = absl::StrCat(path.substr(0, lib), "/bin/python3");
    found.second = ReasonAgainst(found.first);
    if (found.second.empty()) break;
  }
  return found;
}

// How libraries computed in the run, as far as variables say it.
std::map<std::string, std::string> SettingsOf(const TraceModel& model, size_t threads) {
  std::map<std::string, std::string> settings = {{"OMP_NUM_THREADS", absl::StrCat(threads)}};
  for (const ProcessInfo& process : model.processes) {
    for (const auto& [name, value] : process.settings) {
      const bool is_known =
          absl::c_any_of(kLibraries, [&](const char* library) { return absl::StartsWith(name, library); });
      // OMP_TOOL_LIBRARIES loads code.
      if (is_known && !absl::StartsWith(name, "OMP_TOOL") && value.size() < kWholeSetting)
        settings.emplace(name, value);
    }
  }
  return settings;
}

size_t ThreadsOf(const StepFacts& facts, size_t processors) {
  size_t threads = 0;
  if (absl::SimpleAtoi(facts.Setting("OMP_NUM_THREADS"), &threads) && threads > 0) return threads;
  return facts.RunningThreads() < kRunsAlone ? 1 : processors;
}

class Replaying {
 public:
  explicit Replaying(const ReplaySettings& settings) : settings_(settings), progress_(settings.path) {}

  absl::Status Prepare() {
    absl::StatusOr<LoadedRun> run = OpenRun({settings_.path}, kWholeReading, progress_);
    progress_.Clear();
    if (!run.ok()) return run.status();
    for (const absl::Status& status : run->damage) PrintError(status.message());
    if (run->model.processes.empty()) return absl::InvalidArgumentError("nothing of the run can be read");
    const TraceModel& model = run->model;
    const RunAnalysis analysis(&run->model);
    const StepFacts facts(model, analysis.options());
    Ground ground = GroundOf(facts);
    ground.processors = std::max<size_t>(AllowedProcessors().size(), 1);
    ground.variable = [&facts](const std::string& name) { return facts.Setting(name); };
    const size_t of_run = ThreadsOf(facts, ground.processors);
    threads_ = settings_.threads > 0 ? settings_.threads : of_run;
    run_ = {.unit = facts.StepNoun(), .step_ns = facts.step_ns()};
    if (threads_ != of_run) run_.apart = absl::StrCat("number of threads: ", of_run, "; here ", threads_);
    const std::string machines = OtherMachine(facts, ThisProcessorInfo(), ground.processors);
    if (!machines.empty()) run_.apart = absl::StrCat("machine: ", machines);
    of_run_ = SettingsOf(model, threads_);
    const std::vector<Variation> listed = ListedVariations(ground, {}, run_.step_ns);
    for (ReplayProblem& problem : ReplayProblems(facts, settings_.top, settings_.named)) {
      Replayed replayed = {std::move(problem)};
      if (replayed.problem.reason.empty()) replayed.variants = VariantsOf(replayed.problem, ground, threads_, listed);
      contests_.emplace_back(replayed.variants.size());
      specs_.push_back(replayed.problem.spec);
      run_.problems.push_back(std::move(replayed));
    }
    ChoosePythons(model);
    for (const ProcessInfo& process : model.processes) {
      if (const std::string release = ReleaseOf(process, "PyTorch"); !release.empty()) torch_ = release;
    }
    if (!run_.problems.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no library call in the steps of the run that is recorded with its size",
                                            settings_.named.empty() ? "" : " and contains '" + settings_.named + "'"));
  }

  int Run() {
    start_ = TryClock::now();
    RunRounds();
    return WasAsked() == Asked::kEnd ? kExitBadInput : Print();
  }

 private:
  // What is started is told before.
  void ChoosePythons(const TraceModel& model) {
    for (const bool is_numpy : {false, true}) {
      const auto [of_run, reason] = PythonOf(model, is_numpy ? "/numpy" : "/torch/");
      const bool is_of_run = !of_run.empty() && reason.empty(), is_given = !settings_.python.empty();
      pythons_[is_numpy] = is_given ? settings_.python : is_of_run ? of_run : "python3";
      const std::string why = is_given         ? ", as --python says"
                              : is_of_run      ? ", beside libraries that the run names"
                              : of_run.empty() ? " of the PATH: the run names none"
                                               : absl::StrCat(" of the PATH, not the run's ", of_run, ": ", reason);
      const bool is_used = absl::c_any_of(run_.problems, [&](const Replayed& replayed) {
        return replayed.problem.reason.empty() && replayed.problem.through_numpy == is_numpy;
      });
      if (is_used) PrintError(absl::StrCat("replay: starting ", pythons_[is_numpy], why));
    }
  }

  // What else a child writes is left out.
  absl::StatusOr<Json> Answered(ChildProcess& child, const Json& request) {
    child.Send(request.dump() + "\n");
    const auto goes_on = [&] { return WasAsked() != Asked::kEnd && TryClock::now() < End() + kGraceOfMeasurement; };
    while (true) {
      const absl::StatusOr<std::string> line = child.ReadLine(goes_on);
      if (!line.ok()) return line.status();
      Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
      if (answer.is_object()) return answer;
    }
  }

  absl::StatusOr<Json> Ask(bool is_numpy, const ReplayVariables& environment, const Json& request) {
    std::map<std::string, std::string> variables = of_run_;
    for (const auto& [name, value] : environment) variables[name] = value;
    const std::string& python = pythons_[is_numpy];
    const std::string cache = absl::StrCat(std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCache));
    std::vector<std::string> words = {"env"};
    for (const auto& [name, value] : variables) words.push_back(absl::StrCat(name, "=", value));
    words.insert(words.end(), {python, "-B", "-c", dlhook_replay_py, is_numpy ? "numpy" : "torch", cache});
    const auto [child, is_new] = children_.try_emplace({is_numpy, environment}, python, words);
    absl::StatusOr<Json> answer = is_new ? Answered(child->second, specs_) : Json();
    if (is_new && answer.ok()) {
      const std::string name = (*answer)["name"];
      frameworks_.insert(absl::StrCat(name, " (", python, ")"));
      // "torch 2.13.0+cpu" is of the release 2.13.
      const bool is_same = absl::StartsWith(absl::StrCat(name.substr(0, name.find('+')), "."), "torch " + torch_ + ".");
      if (!is_numpy && !torch_.empty() && !is_same)
        other_release_ = absl::StrCat("The run had torch ", torch_, ": implementations and times may differ.");
    }
    if (is_new && absl::IsUnavailable(answer.status())) {
      answer = absl::UnavailableError(absl::StrCat(python, ": not a Python with ", is_numpy ? "numpy" : "torch", ": ",
                                                   absl::StripPrefix(answer.status().message(), python + ": "),
                                                   "; name one with --python"));
    }
    if (answer.ok()) answer = Answered(child->second, request);
    if (!answer.ok()) children_.erase(child);  // the next gets another
    return answer;
  }

  // False: it has no result that counts; `failure` says why, unless there was no time or no processor for it.
  bool Measure(size_t number, ReplayVariant* variant, bool is_cold = false) {
    if (IsOver()) return false;
    const ReplayProblem& problem = run_.problems[number].problem;
    progress_.Show(absl::StrCat(problem.kind, " ", problem.direction, " ", variant->name, " of"));
    Json request = variant->request;
    request.update({{"problem", number}, {"cold", is_cold}});
    const absl::StatusOr<Json> answer = Ask(problem.through_numpy, variant->environment, request);
    if (absl::IsCancelled(answer.status())) return false;
    variant->failure = answer.ok() ? answer->value("failure", "") : std::string(answer.status().message());
    if (!variant->failure.empty()) return false;
    if (is_cold) {
      variant->cold_ns = (*answer)["ns"];
      return true;
    }
    ++measured_;
    const bool is_disturbed = double{(*answer)["queued"]} > kDisturbed;
    disturbed_ += is_disturbed ? 1 : 0;
    if (is_disturbed && (variant != &run_.problems[number].base || !variant->ns.empty())) return false;
    variant->ns.push_back((*answer)["ns"]);
    AddLog((*answer)["log"], problem, variant);
    return !is_disturbed;
  }

  // Conversions in an op as it ran are problems of their own, if they are among those of the run.
  void AddLog(const Json& log, const ReplayProblem& problem, ReplayVariant* variant) {
    for (const Json& line : log) {
      const auto add_to = [&line](ReplayVariant* times) {
        times->library_ns.push_back(line["ns"]);
        times->implementation = line["implementation"];
      };
      if (line["kind"] == problem.kind) add_to(variant);
      if (line["kind"] != "reorder" || !variant->name.empty()) continue;
      Op op = {.kind = line["kind"], .problem = line["problem"]};
      op.tensors = ParseMemoryDescriptors(std::string(line["tensors"]));
      for (auto& [other, base, variants] : run_.problems) {
        if (other.kind == op.kind && other.problem == ProblemLabel(op) && other.formats == FormatsLabel(op))
          add_to(&base);
      }
    }
  }

  void RunRound(size_t number, bool is_backwards) {
    auto& [problem, base, variants] = run_.problems[number];
    std::vector<size_t> open = contests_[number].NextRound(), done;
    if (is_backwards) absl::c_reverse(open);
    if (!is_backwards && !Measure(number, &base)) return;
    for (size_t i : open) {
      if (Measure(number, &variants[i])) done.push_back(i);
      if (!variants[i].failure.empty()) contests_[number].Fail(i);
    }
    if (is_backwards && !Measure(number, &base)) return;
    for (size_t i : done) contests_[number].Add(i, base.ns.back(), variants[i].ns.back());
  }

  // First all of them as they ran.
  void RunRounds() {
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

  int Print() {
    std::vector<std::string> notes;
    bool can_be = false;  // there is a result, or there would be with more time
    for (size_t number = 0; number < run_.problems.size(); ++number) {
      auto& [problem, base, variants] = run_.problems[number];
      for (size_t i = 0; i < variants.size(); ++i) {
        variants[i].outcome = contests_[number].outcome(i);
        variants[i].speed = contests_[number].speed(i);
      }
      can_be |= !base.ns.empty() || (problem.reason.empty() && base.failure.empty());
      if (base.ns.empty() && base.failure.empty())
        base.failure = problem.reason.empty() ? "the budget was used up before" : problem.reason;
      if (!base.implementation.empty() && base.implementation != problem.implementation)
        notes.push_back(absl::StrCat(problem.kind, " ", problem.direction, " of ", problem.layers, ": alone ",
                                     base.implementation, " was chosen, in the run ", problem.implementation, "."));
    }
    if (!other_release_.empty()) notes.push_back(other_release_);
    if (measured_ > 0) {
      notes.push_back(absl::StrFormat(
          "Computed by %s, threads: %d. Times are without what threads waited for processors; %d of %d measurements do "
          "not count, because other programs had these. Bounds and outcomes hold for all variants of a problem and all "
          "rounds together with %.0f %% (sequential t-test of paired rounds); %.0f s.",
          absl::StrJoin(frameworks_, ", "), threads_, disturbed_, measured_, 100 * (1 - kTryAlpha),
          std::chrono::duration<double>(TryClock::now() - start_).count()));
      notes.emplace_back(
          "Gains are of these calls alone: conversions that a change needs elsewhere, or saves, are not in them.");
    }
    std::vector<Table> tables = ReplayTables(run_);
    tables.front().notes.insert(tables.front().notes.end(), notes.begin(), notes.end());
    for (Table& table : tables) {
      if (settings_.flags.renderer->name == "text") LimitRows(kTextLimit, &table);
    }
    progress_.Clear();
    if (!can_be) PrintError("replay: nothing could be replayed; the table says why");
    const int code = PrintTables(settings_.flags, std::move(tables));
    return can_be ? code : kExitBadInput;
  }

  TryClock::time_point End() const { return start_ + settings_.flags.budget; }
  bool IsOver() const { return TryClock::now() >= End() || WasAsked() != Asked::kNothing; }

  const ReplaySettings& settings_;
  Progress progress_;
  TryClock::time_point start_;
  ReplayedRun run_;
  std::vector<Contest> contests_;  // of its problems
  Json specs_;
  size_t threads_ = 1;
  std::string pythons_[2];                     // by through_numpy
  std::string torch_;                          // its release in the run; empty: not known
  std::map<std::string, std::string> of_run_;  // variables
  std::map<std::pair<bool, ReplayVariables>, ChildProcess> children_;
  std::set<std::string> frameworks_;     // with versions
  std::string other_release_;            // a note: what the run had
  size_t measured_ = 0, disturbed_ = 0;  // measurements
};

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
                    {"format", "FORMAT", "text, csv, json or markdown (default: text)"},
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
