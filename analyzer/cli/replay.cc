// `dlhook replay`: runs the heaviest problems of a run again, alone, as they ran and in other ways, in turns, until the test of
// `dlhook try` decides. Children compute, each a Python with the run's framework (whatif/replay.py), one for each environment.
#include "analyzer/whatif/replay.h"

#include "analyzer/calibrate/this_machine.h"
#include "analyzer/calls/op_labels.h"
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
constexpr double kDisturbed = 0.1;   // part of a measurement in which threads waited for processors: it decides nothing
constexpr double kLost = 0.5;        // its time is not used at all: only the longest wait of a thread is taken off it
constexpr int64_t kLeastCache = 16 << 20;
constexpr std::chrono::seconds kPatience(120);           // with a Python that starts
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
  RETURN_IF_ERROR(ReadNumber<size_t>(args, "top", "a number from 1 on", 1, SIZE_MAX, &settings.top));
  RETURN_IF_ERROR(ReadNumber<size_t>(args, "threads", "a number from 1 on", 1, SIZE_MAX, &settings.threads));
  if (const size_t most = AllowedProcessors().size(); settings.threads > std::max<size_t>(most, 1))
    return absl::InvalidArgumentError(absl::StrCat("--threads: this process may use ", most, " processors"));
  ASSIGN_OR_RETURN(settings.flags, ReadTryFlags(args, kStandardReplayBudget));
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
  std::vector<std::string> paths = MappedFiles(model, package);
  // Of all names of the trace: files of Python's frames are among them.
  absl::c_copy_if(model.names, std::back_inserter(paths),
                  [&](const std::string& name) { return absl::StrContains(name, package); });
  for (const std::string& path : paths) {
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

// `through`: of the heaviest problem. TensorFlow and XLA have a pool with a thread for each processor, busy or not.
size_t ThreadsOf(const StepFacts& facts, size_t processors, const std::string& through) {
  std::vector<const char*> variables = {ThreadsVariable(through)};
  if (through == "jax") variables.push_back("NPROC");  // XLA reads it next; OpenBLAS:
  if (through == "numpy") variables.push_back("OMP_NUM_THREADS");
  for (const char* variable : variables) {
    size_t threads = 0;
    if (absl::SimpleAtoi(facts.Setting(variable), &threads) && threads > 0) return threads;
  }
  const bool has_pool = through == "tensorflow" || through == "jax";
  return facts.RunningThreads() < kRunsAlone && !has_pool ? 1 : processors;
}

class Replaying {
 public:
  explicit Replaying(const ReplaySettings& settings) : settings_(settings), progress_(settings.path) {}

  absl::Status Prepare() {
    ASSIGN_OR_RETURN(LoadedRun run, OpenRun({settings_.path}, kWholeReading, progress_));
    progress_.Clear();
    for (const absl::Status& status : run.damage) PrintError(status.message());
    if (run.model.processes.empty()) return absl::InvalidArgumentError("nothing of the run can be read");
    const TraceModel& model = run.model;
    const RunAnalysis analysis(&run.model);
    const StepFacts facts(model, analysis.options());
    Ground ground = GroundOf(facts);
    ground.processors = std::max<size_t>(AllowedProcessors().size(), 1);
    ground.variable = [&facts](const std::string& name) { return facts.Setting(name); };
    std::vector<ReplayProblem> problems = ReplayProblems(facts, settings_.top, settings_.named);
    const size_t of_run = ThreadsOf(facts, ground.processors, problems.empty() ? "" : problems.front().through);
    threads_ = settings_.threads > 0 ? settings_.threads : of_run;
    run_ = {.unit = facts.StepNoun(), .step_ns = facts.step_ns()};
    if (threads_ != of_run) run_.apart = absl::StrCat("number of threads: ", of_run, "; here ", threads_);
    const std::string machines = OtherMachine(facts, ThisProcessorInfo(), ground.processors);
    if (!machines.empty()) run_.apart = absl::StrCat("machine: ", machines);
    file_ = ReplayFileOf(model);
    of_run_ = SettingsOf(model, threads_);
    const std::vector<Variation> listed = ListedVariations(ground, {}, run_.step_ns);
    for (ReplayProblem& problem : problems) {
      Replayed replayed = {std::move(problem)};
      if (replayed.problem.reason.empty()) replayed.variants = VariantsOf(replayed.problem, ground, threads_, listed);
      contests_.emplace_back(replayed.variants.size());
      specs_.push_back(replayed.problem.spec);
      run_.problems.push_back(std::move(replayed));
    }
    ChoosePythons(model);
    for (const GpuDevice& device : model.gpu_devices) {
      if (!device.name.empty()) gpus_.insert(device.name);
    }
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
  // What is started is told before. oneDNN's own library is called from a Python, too: one that is started anyway.
  void ChoosePythons(const TraceModel& model) {
    std::map<std::string, const char*> named = {{"jax", "/jax/"}, {"numpy", "/numpy"}};
    named.insert({{"tensorflow", "/tensorflow/"}, {"torch", "/torch/"}});
    for (const Replayed& replayed : run_.problems) {
      const std::string& through = replayed.problem.through;
      if (!replayed.problem.reason.empty() || pythons_.contains(through)) continue;
      if (through == "onednn" && !pythons_.empty()) {
        pythons_[through] = std::string(pythons_.begin()->second);
        continue;
      }
      const auto package = named.find(through);
      const auto [of_run, reason] =
          package == named.end() ? std::pair<std::string, std::string>() : PythonOf(model, package->second);
      const bool is_of_run = !of_run.empty() && reason.empty(), is_given = !settings_.python.empty();
      pythons_[through] = is_given ? settings_.python : is_of_run ? of_run : "python3";
      const std::string why = is_given         ? ", as --python says"
                              : is_of_run      ? ", beside libraries that the run names"
                              : of_run.empty() ? " of the PATH: the run names none"
                                               : absl::StrCat(" of the PATH, not the run's ", of_run, ": ", reason);
      PrintError(absl::StrCat("replay: starting ", pythons_[through], why));
    }
  }

  // What else a child writes is left out.
  absl::StatusOr<Json> Answered(ChildProcess& child, const Json& request, TryClock::time_point until) {
    child.Send(request.dump() + "\n");
    const auto goes_on = [&] { return WasAsked() == Asked::kNothing && TryClock::now() < until; };
    while (true) {
      const absl::StatusOr<std::string> line = child.ReadLine(goes_on);
      if (!line.ok()) return line.status();
      Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
      if (answer.is_object()) return answer;
    }
  }

  absl::StatusOr<Json> Ask(const std::string& through, const ReplayVariables& environment, const Json& request) {
    std::map<std::string, std::string> variables = of_run_;
    variables[ThreadsVariable(through)] = absl::StrCat(threads_);
    for (const auto& [name, value] : environment) variables[name] = value;
    const std::string& python = pythons_[through];
    const std::string cache = absl::StrCat(std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCache));
    std::vector<std::string> words = {"env"};
    for (const auto& [name, value] : variables) words.push_back(absl::StrCat(name, "=", value));
    words.insert(words.end(), {python, "-B", "-c", dlhook_replay_py, through, cache});
    const auto [child, is_new] = children_.try_emplace({through, environment}, python, words);
    const TryClock::time_point before = TryClock::now();
    absl::StatusOr<Json> answer = is_new ? Answered(child->second, specs_, before + kPatience) : Json();
    starts_ += TryClock::now() - before;  // a framework may take longer to load than all measurements
    if (is_new && answer.ok()) {
      const std::string name = (*answer)["name"];
      frameworks_.insert(absl::StrCat(name, " (", python, ")"));
      if (through == "onednn") run_.library = name;
      const std::string gpu = (*answer)["gpu"];
      if (!gpus_.empty() && !gpu.empty() && !gpus_.contains(gpu))
        run_.apart = absl::StrCat("GPU: ", absl::StrJoin(gpus_, ", "), "; here ", gpu);
      // "torch 2.13.0+cpu" is of the release 2.13.
      const bool is_same = absl::StartsWith(absl::StrCat(name.substr(0, name.find('+')), "."), "torch " + torch_ + ".");
      if (through == "torch" && !torch_.empty() && !is_same)
        other_release_ = absl::StrCat("The run had torch ", torch_, ": implementations and times may differ.");
    }
    if (is_new && absl::IsUnavailable(answer.status())) {
      const std::string why(absl::StripPrefix(answer.status().message(), python + ": "));
      answer = absl::UnavailableError(through == "onednn" ? why
                                                          : absl::StrCat(python, ": not a Python with ", through, ": ",
                                                                         why, "; name one with --python"));
    }
    if (answer.ok()) answer = Answered(child->second, request, End() + kGraceOfMeasurement);
    if (!answer.ok()) children_.erase(child);  // the next gets another
    return answer;
  }

  // Ways that only the library itself knows. False: the system has none of that name.
  bool AskForWays(size_t number) {
    auto& [problem, base, variants] = run_.problems[number];
    const absl::StatusOr<Json> answer =
        IsOver() ? absl::CancelledError() : Ask(problem.through, {}, {{"offers", number}});
    if (absl::IsUnavailable(answer.status()) && problem.through == "onednn") {
      no_library_ = std::string(absl::StripPrefix(answer.status().message(), "ValueError: "));
      return false;
    }
    if (!answer.ok() || answer->contains("failure")) return true;
    base.formats = (*answer)["formats"];
    if (problem.through == "onednn") base.implementation = (*answer)["chosen"];
    for (const Json& way : (*answer)["ways"]) {
      variants.push_back({.name = way[0], .request = way[1], .formats = way[2]});
      variants.back().changes_numerics = absl::StrContains(variants.back().name, "wino");  // it rounds otherwise
    }
    contests_[number] = Contest(variants.size());
    return true;
  }

  // False: it has no result that counts; `failure` says why, unless there was no time or no processor for it.
  bool Measure(size_t number, ReplayVariant* variant, bool is_cold = false) {
    if (IsOver()) return false;
    const ReplayProblem& problem = run_.problems[number].problem;
    progress_.Show(absl::StrCat(problem.kind, " ", problem.direction, " ", variant->name, " of"));
    Json request = variant->request;
    request.update({{"problem", number}, {"cold", is_cold}});
    const absl::StatusOr<Json> answer = Ask(problem.through, variant->environment, request);
    if (absl::IsCancelled(answer.status())) return false;
    variant->failure = answer.ok() ? answer->value("failure", "") : std::string(answer.status().message());
    if (!variant->failure.empty()) return false;
    const double queued = (*answer)["queued"];
    if (is_cold) {
      if (queued <= kLost) variant->cold_ns = (*answer)["ns"];
      return true;
    }
    ++measured_;
    const bool is_disturbed = queued > kDisturbed;
    disturbed_ += is_disturbed ? 1 : 0;
    const bool is_first = variant == &run_.problems[number].base && variant->ns.empty();
    if (queued > kLost || (is_disturbed && !is_first)) return false;
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
        if (other.through != "onednn" && other.kind == op.kind && other.problem == ProblemLabel(op) &&
            other.formats == FormatsLabel(op))
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
        if (turn == 0 && !AskForWays(number)) {
          run_.problems.resize(number);  // all that follow are its
          break;
        }
        if (turn == 0 && !base.ns.empty()) Measure(number, &base, /*is_cold=*/true);
        for (size_t round = 0; round < (turn < 2 ? turn : kRoundsAtOnce); ++round) {
          const bool is_done = contests_[number].NextRound().empty() && base.ns.size() >= kRoundsAtOnce;
          if (is_done || !base.failure.empty() || IsOver()) break;
          RunRound(number, round % 2 == 1);
        }
      }
    }
    for (size_t number = 0; number < run_.problems.size(); ++number) {
      std::vector<ReplayVariant>& variants = run_.problems[number].variants;
      for (size_t i = 0; i < variants.size(); ++i) {
        if (contests_[number].outcome(i) == Outcome::kFaster) Measure(number, &variants[i], /*is_cold=*/true);
      }
    }
  }

  int Print() {
    std::vector<std::string> notes;
    bool can_be = false;  // there is a result, or there would be with more time
    for (size_t number = 0; number < run_.problems.size(); ++number) {
      auto& [problem, base, variants] = run_.problems[number];
      for (size_t i = 0; i < variants.size(); ++i) {
        variants[i].rounds = contests_[number].rounds(i);
        variants[i].outcome = contests_[number].outcome(i);
        variants[i].speed = contests_[number].speed(i);
      }
      can_be |= !base.ns.empty() || (problem.reason.empty() && base.failure.empty());
      if (base.ns.empty() && base.failure.empty())
        base.failure = !problem.reason.empty() ? problem.reason
                       : IsOver()              ? "the budget was used up before it was measured without other programs"
                                               : "other programs had the processors";
      const bool is_framework = problem.through != "onednn";
      if (is_framework && !base.implementation.empty() && base.implementation != problem.implementation)
        notes.push_back(absl::StrCat(problem.kind, " ", problem.direction, " of ", problem.layers, ": alone ",
                                     base.implementation, " was chosen, in the run ", problem.implementation, "."));
    }
    if (!other_release_.empty()) notes.push_back(other_release_);
    if (!no_library_.empty())
      notes.push_back(absl::StrCat("Other implementations of oneDNN were not tried: ", no_library_, "."));
    if (measured_ > 0) {
      const std::string by = absl::StrCat("by ", absl::StrJoin(frameworks_, ", "), ", threads: ", threads_);
      notes.push_back(absl::StrFormat(
          "Computed %s. Times are without what threads waited for processors; %d of %d measurements do "
          "not count, because other programs had these. Bounds and outcomes hold for all variants of a problem and all "
          "rounds together with %.0f %% (sequential t-test of paired rounds); %.0f s.",
          by, disturbed_, measured_, 100 * (1 - kContestAlpha),
          std::chrono::duration<double>(TryClock::now() - start_).count()));
      notes.emplace_back(
          "Gains are of these calls alone: conversions that a change needs elsewhere, or saves, are not in them.");
      const absl::Status kept =
          KeepReplay(file_, run_, run_.apart.empty() ? by : absl::StrCat(by, "; another ", run_.apart));
      notes.push_back(
          kept.ok()
              ? "The tables algorithms and candidates of dlhook report have these times, too, until the next replay."
              : absl::StrCat("dlhook report will not have these times: ", kept.message(), "."));
    }
    std::vector<Table> tables = ReplayTables(run_);
    tables.front().notes.insert(tables.front().notes.end(), notes.begin(), notes.end());
    progress_.Clear();
    if (!can_be) PrintError("replay: nothing could be replayed; the table says why");
    const int code = PrintTables(settings_.flags.output, std::move(tables), kTextLimit);
    return can_be ? code : kExitBadInput;
  }

  TryClock::time_point End() const { return start_ + starts_ + settings_.flags.budget; }
  bool IsOver() const { return TryClock::now() >= End() || WasAsked() != Asked::kNothing; }

  const ReplaySettings& settings_;
  Progress progress_;
  TryClock::time_point start_;
  TryClock::duration starts_{};  // in which Pythons were started
  ReplayedRun run_;
  ReplayFile file_;
  std::vector<Contest> contests_;  // of its problems
  Json specs_;
  size_t threads_ = 1;
  std::map<std::string, std::string> pythons_;  // by what they compute through
  std::string torch_;                           // its release in the run; empty: not known
  std::set<std::string> gpus_;                  // of the run
  std::map<std::string, std::string> of_run_;   // variables
  std::map<std::pair<std::string, ReplayVariables>, ChildProcess> children_;
  std::set<std::string> frameworks_;     // with versions
  std::string other_release_;            // a note: what the run had
  std::string no_library_;               // why there is no oneDNN of the system
  size_t measured_ = 0, disturbed_ = 0;  // measurements
};

absl::StatusOr<int> RunReplay(const Args& args) {
  ASSIGN_OR_RETURN(const ReplaySettings settings, ReadReplaySettings(args));
  Replaying replaying(settings);
  RETURN_IF_ERROR(replaying.Prepare());
  return WithKeeper("", [&] { return replaying.Run(); });
}

}  // namespace

Command ReplayCommand() {
  return {.name = "replay",
          .summary = "run the heaviest problems of a run again, alone and in other ways",
          .operands = "RUN",
          .flags = {{"top", "N", "so many problems, the heaviest first (default: 8)"},
                    {"problem", "TEXT", "only those whose size, or layers, contain TEXT"},
                    {"budget", "TIME", "measures for this time, decided or not (default: 2min)"},
                    {"threads", "N", "of the framework (default: as in the run, where it can be told)"},
                    {"python", "PYTHON", "interpreter with the framework (default: the run's)"},
                    {"format", "FORMAT", "text, csv, json or markdown (default: text)"},
                    ColorFlag()},
          .examples = {{"dlhook replay RUN", "would channels_last, bfloat16 or other kernels be faster?"},
                       {"dlhook replay RUN --problem layer1.0.conv1 --budget 30s", "of one layer"}},
          .operand_count = {1, 1},
          .details =
              "Convolutions and matrix products that took most time in steady steps run again in a\n"
              "Python with the run's PyTorch, TensorFlow, JAX or NumPy: as they ran, and with what the\n"
              "same library offers besides (memory format, type, instruction set, native kernels,\n"
              "threads), in turns; and with every implementation and format of the system's oneDNN, and\n"
              "its OpenBLAS. A test over paired rounds decides (docs/compare.md). Ctrl-C ends it with\n"
              "what is known. dlhook report has the times then, in its tables algorithms and candidates.\n"
              "No process is left, and no file but RUN/TRACE.replay.\n",
          .run = RunReplay};
}

}  // namespace dlhook::analyzer::cli
